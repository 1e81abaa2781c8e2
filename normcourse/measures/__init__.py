"""What the lessons measure, one idea per file: tensors in, tensors out, nothing of normlib's own inside."""

from normcourse.measures.activations import (
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
from normcourse.measures.attention import logit_variance, softmax_entropy
from normcourse.measures.bounds import dyisru_bounds, dyt_bounds
from normcourse.measures.clipping import clip_by_norm, clip_by_value, clipping_threshold
from normcourse.measures.depth import (
    activation_rms,
    decay_rate,
    gradient_norms,
    mean_field,
    parameter_gradient_norms,
)
from normcourse.measures.descent import best_step, contraction, descend
from normcourse.measures.elementwise import (
    conditional_mean,
    off_diagonal_share,
    piecewise_linear,
    relative_error,
)
from normcourse.measures.initialisation import he_variance, layer_gains, xavier_variance
from normcourse.measures.lipschitz import lipschitz_estimate, lipschitz_from_jacobians
from normcourse.measures.paths import chain_bound, path_norm
from normcourse.measures.projection import projection_defect
from normcourse.measures.quadrature import (
    normal_expectation,
    normal_probability,
    normal_saturation,
    normal_stability,
    saturation_set,
)
from normcourse.measures.rank import (
    condition_number,
    effective_rank,
    gradient_bounds,
    numerical_rank,
    stable_rank,
)
from normcourse.measures.recurrence import eigenvalue_sizes, power_norms, spectral_radius
from normcourse.measures.residual import residual_bounds
from normcourse.measures.runs import RunStability, generalization_gap, run_speed, run_stability
from normcourse.measures.saturation import (
    normal_quantiles,
    saturation_measure,
    saturation_share,
    slopes,
    stability_measure,
)
from normcourse.measures.similarity import diag_similarity, pooled_similarity, similarity
from normcourse.measures.spectrum import spectral_norm
from normcourse.measures.thresholds import Thresholds, saturation_depth, sigmoid_thresholds, tanh_thresholds

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
