"""What the lessons measure, one idea per file: tensors in, tensors out, nothing of normlib's own inside."""

from normlib.diagnostics.bounds import dyisru_bounds, dyt_bounds
from normlib.diagnostics.elementwise import (
    conditional_mean,
    off_diagonal_share,
    piecewise_linear,
    relative_error,
)
from normlib.diagnostics.lipschitz import lipschitz_estimate, lipschitz_from_jacobians
from normlib.diagnostics.projection import projection_defect
from normlib.diagnostics.saturation import (
    normal_quantiles,
    saturation_measure,
    saturation_share,
    slopes,
    stability_measure,
)
from normlib.diagnostics.similarity import diag_similarity, pooled_similarity, similarity
from normlib.diagnostics.spectrum import spectral_norm

__all__ = [
    "conditional_mean",
    "diag_similarity",
    "dyisru_bounds",
    "dyt_bounds",
    "lipschitz_estimate",
    "lipschitz_from_jacobians",
    "normal_quantiles",
    "off_diagonal_share",
    "piecewise_linear",
    "pooled_similarity",
    "projection_defect",
    "relative_error",
    "saturation_measure",
    "saturation_share",
    "similarity",
    "slopes",
    "spectral_norm",
    "stability_measure",
]
