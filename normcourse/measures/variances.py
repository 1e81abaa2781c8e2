"""Variances of random weights and of attention's logits, and the entropy of attention's weights."""

import torch
from torch import Tensor

# Random weights


def he_variance(fan_in: int) -> float:
    """2 / fan_in: keeps the mean square from one ReLU layer to the next.

    [EQ-HE]

    Raises: ValueError (a fan below 1).
    Source: He et al. 2015, section 2.2, eq. (10).
    """
    if fan_in < 1:
        raise ValueError(f"he_variance needs fan_in >= 1, got {fan_in}. Pass the layer's inputs.")
    return 2 / fan_in


# Attention


def logit_variance(
    dim: int,
    query_std: float = 1.0,
    key_std: float = 1.0,
    query_mean: float = 0.0,
    key_mean: float = 0.0,
) -> float:
    """Variance of the sum of dim products q k of independent entries, a float.

    [EQ-LOGIT-VARIANCE]

    Raises: ValueError (dim below 1).
    Source: Vaswani et al. 2017, section 3.2.1, footnote 4, with means.
    """
    if dim < 1:
        raise ValueError(f"logit_variance needs dim >= 1, got {dim}. Pass the width of one head.")
    entry = (query_std * key_std) ** 2 + (query_std * key_mean) ** 2 + (key_std * query_mean) ** 2
    return dim * entry


def softmax_entropy(logits: Tensor) -> Tensor:
    """(...) for logits (..., n): -sum of p ln p, from 0 (one-hot) to ln n (uniform).

    [EQ-ENTROPY]

    Logits of -inf (a mask) have p = 0 and add nothing.
    Source: Shannon 1948, section 6.
    """
    return torch.special.entr(logits.softmax(-1)).sum(-1)
