"""What the lessons measure, one idea per file: tensors in, tensors out, nothing of normlib's own inside."""

from normlib.diagnostics.lipschitz import lipschitz_estimate, lipschitz_from_jacobians
from normlib.diagnostics.projection import projection_defect
from normlib.diagnostics.similarity import diag_similarity, similarity
from normlib.diagnostics.spectrum import spectral_norm

__all__ = [
    "diag_similarity",
    "lipschitz_estimate",
    "lipschitz_from_jacobians",
    "projection_defect",
    "similarity",
    "spectral_norm",
]
