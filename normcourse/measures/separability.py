"""What a linear classifier can read from the outputs of a layer."""

import torch
from torch import Tensor
from torch.nn import functional as F

RIDGE = 1.0  # penalty on the squared weights, beside the squared errors of all rows
DEAD = 1e-12  # a feature that varies less than this, relative to the largest one, is constant


def separability(rows: Tensor, labels: Tensor, new_rows: Tensor, new_labels: Tensor) -> float:
    """Accuracy of a linear probe that is fitted to one part of the data and judged on another.

    The probe is a ridge regression onto one-hot labels. Every feature is standardized first, so
    the scale of the rows makes no difference.

    Args:
        rows, new_rows: (N, D) and (M, D), the outputs of a layer.
        labels, new_labels: (N,) and (M,), whole numbers from 0.
    Raises: ValueError (the shapes do not fit).
    Source: Alain & Bengio 2016, Understanding intermediate layers using linear classifier probes.
    """
    for found, classes in ((rows, labels), (new_rows, new_labels)):
        if found.dim() != 2 or found.shape[:1] != classes.shape or found.shape[1] != rows.shape[-1]:
            raise ValueError(
                "separability needs rows (N, D) with labels (N,), and new rows of the same D, "
                f"got {tuple(rows.shape)} with {tuple(labels.shape)} and "
                f"{tuple(new_rows.shape)} with {tuple(new_labels.shape)}. "
                "Flatten what comes after the first axis: h.flatten(1)."
            )
    with torch.no_grad():
        mean, deviation = rows.mean(0), rows.std(0)
        least = max(DEAD * deviation.max().item(), torch.finfo(rows.dtype).tiny)
        deviation = deviation.clamp(min=least)
        known = (rows - mean) / deviation
        wanted = F.one_hot(labels).to(rows.dtype)
        penalty = RIDGE * torch.eye(rows.shape[1], dtype=rows.dtype)
        weights = torch.linalg.solve(known.T @ known + penalty, known.T @ wanted)
        scores = (new_rows - mean) / deviation @ weights + wanted.mean(0)
        return (scores.argmax(1) == new_labels).double().mean().item()
