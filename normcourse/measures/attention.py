"""Attention's logits and weights: their variance and their entropy."""

import torch
from torch import Tensor


def logit_variance(
    dim: int,
    query_std: float = 1.0,
    key_std: float = 1.0,
    query_mean: float = 0.0,
    key_mean: float = 0.0,
    scaled: bool = False,
) -> float:
    """Variance of the sum of dim products q k of independent entries, a float.  [EQ-LOGIT-VARIANCE]

    scaled: of that sum over sqrt(dim).
    Raises: ValueError (dim below 1).
    Source: Vaswani et al. 2017, section 3.2.1, footnote 4, with means.
    """
    if dim < 1:
        raise ValueError(f"logit_variance needs dim >= 1, got {dim}. Pass the width of one head.")
    entry = (query_std * key_std) ** 2 + (query_std * key_mean) ** 2 + (key_std * query_mean) ** 2
    return entry if scaled else dim * entry


def softmax_entropy(logits: Tensor) -> Tensor:
    """(...) for logits (..., n): -sum of p ln p, from 0 (one-hot) to ln n (uniform).  [EQ-ENTROPY]

    Logits of -inf (a mask) have p = 0 and add nothing.
    Source: Shannon 1948, section 6.
    """
    return torch.special.entr(logits.softmax(-1)).sum(-1)
