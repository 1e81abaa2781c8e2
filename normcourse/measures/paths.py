"""A whole chain of layers in one number: the product of their norms, and the sum over paths."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from normcourse.measures.spectrum import spectral_norm


def chain_bound(jacobians: Sequence[Tensor] | Tensor) -> Tensor:
    """The product of the layers' spectral norms: one number, at least the product's.  [EQ-CHAIN-BOUND]

    Raises: ValueError (no layers).
    Source: Golub & Van Loan 2013, section 2.3; GRAD-SAT's "path depth".
    """
    if not len(jacobians):
        raise ValueError("chain_bound needs at least one Jacobian, got none. Pass one per layer.")
    return torch.stack([spectral_norm(jacobian) for jacobian in jacobians]).prod()


def path_norm(weights: Sequence[Tensor]) -> Tensor:
    """Root of the sum over all paths of the squared product of their weights, one number.  [EQ-PATH-NORM]

    weights: (out, in) of each layer, the first layer first; biases are left out. One forward pass of ones
    through the squared weights adds up all paths.
    Raises: ValueError (no layers, or widths that do not meet).
    Source: Neyshabur, Salakhutdinov & Srebro 2015, section 3.
    """
    shapes = [tuple(weight.shape) for weight in weights]
    if not shapes or any(len(shape) != 2 for shape in shapes):
        raise ValueError(f"path_norm needs matrices (out, in), got {shapes}. Pass one weight per layer.")
    if any(out != fan_in for (out, _), (_, fan_in) in itertools.pairwise(shapes)):
        raise ValueError(
            f"path_norm needs layers whose widths meet, got {shapes}. Pass the first layer first."
        )
    total = weights[0].new_ones(shapes[0][1])
    for weight in weights:
        total = weight.square() @ total
    return total.sum().sqrt()
