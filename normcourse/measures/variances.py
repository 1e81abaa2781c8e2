"""Variances of random weights and of attention's logits, and the entropy of attention's weights."""

import torch
from torch import Tensor

# Random weights: what keeps the signal, what keeps the gradient, and the compromise


def layer_gains(fan_in: int, fan_out: int, variance: float) -> tuple[float, float]:
    """(forward, backward): what a linear layer multiplies mean squares by.

    [EQ-INIT]

    forward: of the signal, fan_in variance; backward: of the gradient, fan_out variance.
    Raises: ValueError (a fan below 1, a negative variance).
    Source: Glorot & Bengio 2010, section 4.2.1, with mean squares in place of variances.
    """
    _check_fans(fan_in, fan_out)
    if variance < 0:
        raise ValueError(
            f"layer_gains needs a variance of at least 0, got {variance}. Pass std squared."
        )
    return fan_in * variance, fan_out * variance


def xavier_variance(fan_in: int, fan_out: int) -> float:
    """2 / (fan_in + fan_out), the harmonic mean of 1 / fan_in and 1 / fan_out.

    [EQ-XAVIER]

    Raises: ValueError (a fan below 1).
    Source: Glorot & Bengio 2010, section 4.2.1, eq. (12).
    """
    _check_fans(fan_in, fan_out)
    return 2 / (fan_in + fan_out)


def he_variance(fan_in: int) -> float:
    """2 / fan_in: keeps the mean square from one ReLU layer to the next.

    [EQ-HE]

    Raises: ValueError (a fan below 1).
    Source: He et al. 2015, section 2.2, eq. (10).
    """
    _check_fans(fan_in)
    return 2 / fan_in


def _check_fans(*fans: int) -> None:
    if min(fans) < 1:
        raise ValueError(
            f"A layer has at least one input and one output, got {min(fans)}. Pass its fans."
        )


# Attention


def logit_variance(
    dim: int,
    query_std: float = 1.0,
    key_std: float = 1.0,
    query_mean: float = 0.0,
    key_mean: float = 0.0,
    scaled: bool = False,
) -> float:
    """Variance of the sum of dim products q k of independent entries, a float.

    [EQ-LOGIT-VARIANCE]

    scaled: of that sum over sqrt(dim).
    Raises: ValueError (dim below 1).
    Source: Vaswani et al. 2017, section 3.2.1, footnote 4, with means.
    """
    if dim < 1:
        raise ValueError(f"logit_variance needs dim >= 1, got {dim}. Pass the width of one head.")
    entry = (query_std * key_std) ** 2 + (query_std * key_mean) ** 2 + (key_std * query_mean) ** 2
    return entry if scaled else dim * entry


def softmax_entropy(logits: Tensor) -> Tensor:
    """(...) for logits (..., n): -sum of p ln p, from 0 (one-hot) to ln n (uniform).

    [EQ-ENTROPY]

    Logits of -inf (a mask) have p = 0 and add nothing.
    Source: Shannon 1948, section 6.
    """
    return torch.special.entr(logits.softmax(-1)).sum(-1)
