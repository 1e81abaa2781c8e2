"""Similarity of two Jacobians: the cosine of the angle between them, all entries or the diagonals alone."""

import torch
from torch import Tensor


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """(...) for two matrices (..., D, D): sum(A B) / (|A| |B|), between -1 and 1.  [EQ-SIM]

    Blind to the scale of either, so it cannot tell a Jacobian from its double; NaN if one is zero.
    Source: KEXUE-DERIV, section 10.1.
    """
    return _cosine(a.flatten(-2), b.flatten(-2))


def diag_similarity(a: Tensor, b: Tensor) -> Tensor:
    """(...) for two matrices (..., D, D): the cosine of their diagonals.  [EQ-SIM-DIAG]

    Weak: a constant diagonal already scores 0.996 against RMSNorm's at D = 16 on Gaussian data.
    Source: KEXUE-DERIV, section 10.1.
    """
    return _cosine(a.diagonal(dim1=-2, dim2=-1), b.diagonal(dim1=-2, dim2=-1))


def pooled_similarity(a: Tensor, b: Tensor) -> Tensor:
    """One cosine over all entries of all samples, for tensors of one shape.  [EQ-SIM-POOLED]

    It sees what the mean of many cosines does not: that a sample's Jacobian is large where its row is small.
    Pass Jacobians (samples, D, D) or their diagonals (samples, D).
    Source: ours, after KEXUE-DERIV, section 10.1.
    """
    return _cosine(a.flatten(), b.flatten())


def _cosine(u: Tensor, v: Tensor) -> Tensor:
    if u.shape[-1] != v.shape[-1]:
        raise ValueError(
            f"similarity compares Jacobians of one size, got {u.shape[-1]} and {v.shape[-1]} entries. "
            "Compute both at rows of the same width."
        )
    return (u * v).sum(-1) / (torch.linalg.vector_norm(u, dim=-1) * torch.linalg.vector_norm(v, dim=-1))
