"""Statistics over chosen axes, and the slips with them that a norm of any axes invites."""

import torch
from torch import Tensor

# what an exercise asks for may not be called
FINISHED = ("layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm", "normlib")


def mean(t: Tensor) -> Tensor:
    """Of each row."""
    return t.mean(-1, keepdim=True)


def total(t: Tensor) -> Tensor:
    """Of each row."""
    return t.sum(-1, keepdim=True)


def centred(x: Tensor, dims) -> Tensor:
    return x - x.mean(dims, keepdim=True)


def deviation(x: Tensor, dims, correction: int = 0) -> Tensor:
    return x.std(dims, keepdim=True, correction=correction)


def mean_square(x: Tensor, dims) -> Tensor:
    return x.square().mean(dims, keepdim=True)


def size(x: Tensor, dims, eps: float, correction: int = 0) -> Tensor:
    """What a norm divides by: the root of the variance plus eps."""
    return torch.sqrt(x.var(dims, keepdim=True, correction=correction) + eps)


def standardize(x: Tensor, dims, correction: int = 0, eps: float = 0.5) -> Tensor:
    return centred(x, dims) / size(x, dims, eps, correction)


def row_size(x: Tensor, eps: float) -> Tensor:
    return size(x, -1, eps)


def gains(count: int) -> Tensor:
    """Different ones, none of them 1 for small counts."""
    return torch.linspace(0.5, 2.5, count, dtype=torch.float64)


BIASED = (
    "the variance is the biased one: divide by the number of values, not by one less "
    "(correction=0)."
)
STATISTICS = {  # what a check says: the normalized values that earn it, of x, axes and eps
    BIASED: lambda x, dims, eps: standardize(x, dims, correction=1, eps=eps),
    "eps belongs inside the root, added to the variance, not to the standard deviation.": (
        lambda x, dims, eps: centred(x, dims) / (deviation(x, dims) + eps)
    ),
    "that is torch's std() + eps: divide by the number of values, not by one less, "
    "and put eps inside the root.": lambda x, dims, eps: (
        centred(x, dims) / (deviation(x, dims, 1) + eps)
    ),
    "that is torch's std(): divide by the number of values, not by one less, "
    "and add eps to the variance.": lambda x, dims, eps: centred(x, dims) / deviation(x, dims, 1),
    "that has length 1: the variance is the MEAN of the squares, not their sum.": (
        lambda x, dims, eps: (
            centred(x, dims) / torch.sqrt(centred(x, dims).square().sum(dims, keepdim=True) + eps)
        )
    ),
    "divide by the standard deviation: the square root is missing.": lambda x, dims, eps: (
        centred(x, dims) / size(x, dims, eps).square()
    ),
    "eps is not used; add it to the variance.": lambda x, dims, eps: standardize(x, dims, eps=0.0),
    "eps is an argument; yours is fixed at 1e-5.": lambda x, dims, eps: standardize(
        x, dims, eps=1e-5
    ),
    "the mean is not subtracted from x: that is RMSNorm.": lambda x, dims, eps: (
        x / torch.sqrt(mean_square(x, dims) + eps)
    ),
    "the mean is subtracted inside the variance only: "
    "what you divide has to be centred as well.": lambda x, dims, eps: x / size(x, dims, eps),
    "that is the mean absolute deviation: square before you take the mean, "
    "then take the root.": lambda x, dims, eps: (
        centred(x, dims) / (centred(x, dims).abs().mean(dims, keepdim=True) + eps)
    ),
    "the mean is subtracted, but not divided by anything.": lambda x, dims, eps: centred(x, dims),
}
AFFINE = {  # what a check says: the output that earns it, of normalized values, gain and bias
    "the bias is missing.": lambda xhat, w, b: xhat * w,
    "the gain (weight) is missing.": lambda xhat, w, b: xhat + b,
    "gain and bias are missing.": lambda xhat, w, b: xhat,
    "the bias is multiplied by the gain: add it last.": lambda xhat, w, b: (xhat + b) * w,
    "the gain is the factor itself: here it is 1 plus the gain.": (
        lambda xhat, w, b: xhat * (1 + w) + b
    ),
    "the gain is one number here; every feature has its own.": (
        lambda xhat, w, b: xhat * w.mean() + b
    ),
    "gain and bias are one number each here; every feature has its own.": (
        lambda xhat, w, b: xhat * w.mean() + b.mean()
    ),
}
