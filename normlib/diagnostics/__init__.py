"""What the lessons measure, one idea per file: tensors in, tensors out, nothing of normlib's own inside."""

from normlib.diagnostics.activations import (
    ACTIVATIONS,
    Activation,
    elu_slope,
    gelu_slope,
    leaky_relu_slope,
    relu_slope,
    sigmoid_slope,
    swish,
    swish_slope,
    tanh_slope,
)
from normlib.diagnostics.attention import logit_variance, softmax_entropy
from normlib.diagnostics.bounds import dyisru_bounds, dyt_bounds
from normlib.diagnostics.clipping import clip_by_norm, clip_by_value, clipping_threshold
from normlib.diagnostics.depth import (
    activation_rms,
    decay_rate,
    gradient_norms,
    mean_field,
    parameter_gradient_norms,
)
from normlib.diagnostics.descent import best_step, contraction, descend
from normlib.diagnostics.elementwise import (
    conditional_mean,
    off_diagonal_share,
    piecewise_linear,
    relative_error,
)
from normlib.diagnostics.initialisation import he_variance, layer_gains, xavier_variance
from normlib.diagnostics.lipschitz import lipschitz_estimate, lipschitz_from_jacobians
from normlib.diagnostics.paths import chain_bound, path_norm
from normlib.diagnostics.projection import projection_defect
from normlib.diagnostics.quadrature import (
    normal_expectation,
    normal_probability,
    normal_saturation,
    normal_stability,
    saturation_set,
)
from normlib.diagnostics.rank import (
    condition_number,
    effective_rank,
    gradient_bounds,
    numerical_rank,
    stable_rank,
)
from normlib.diagnostics.recurrence import eigenvalue_sizes, power_norms, spectral_radius
from normlib.diagnostics.residual import residual_bounds
from normlib.diagnostics.runs import RunStability, generalization_gap, run_speed, run_stability
from normlib.diagnostics.saturation import (
    normal_quantiles,
    saturation_measure,
    saturation_share,
    slopes,
    stability_measure,
)
from normlib.diagnostics.similarity import diag_similarity, pooled_similarity, similarity
from normlib.diagnostics.spectrum import spectral_norm
from normlib.diagnostics.thresholds import Thresholds, saturation_depth, sigmoid_thresholds, tanh_thresholds

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "RunStability",
    "Thresholds",
    "activation_rms",
    "best_step",
    "chain_bound",
    "clip_by_norm",
    "clip_by_value",
    "clipping_threshold",
    "condition_number",
    "conditional_mean",
    "contraction",
    "decay_rate",
    "descend",
    "diag_similarity",
    "dyisru_bounds",
    "dyt_bounds",
    "effective_rank",
    "eigenvalue_sizes",
    "elu_slope",
    "gelu_slope",
    "generalization_gap",
    "gradient_bounds",
    "gradient_norms",
    "he_variance",
    "layer_gains",
    "leaky_relu_slope",
    "lipschitz_estimate",
    "lipschitz_from_jacobians",
    "logit_variance",
    "mean_field",
    "normal_expectation",
    "normal_probability",
    "normal_quantiles",
    "normal_saturation",
    "normal_stability",
    "numerical_rank",
    "off_diagonal_share",
    "parameter_gradient_norms",
    "path_norm",
    "piecewise_linear",
    "pooled_similarity",
    "power_norms",
    "projection_defect",
    "relative_error",
    "relu_slope",
    "residual_bounds",
    "run_speed",
    "run_stability",
    "saturation_depth",
    "saturation_measure",
    "saturation_set",
    "saturation_share",
    "sigmoid_slope",
    "sigmoid_thresholds",
    "similarity",
    "slopes",
    "softmax_entropy",
    "spectral_norm",
    "spectral_radius",
    "stability_measure",
    "stable_rank",
    "swish",
    "swish_slope",
    "tanh_slope",
    "tanh_thresholds",
    "xavier_variance",
]
