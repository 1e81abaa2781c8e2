"""The usual activation functions and their slopes in closed form.

slopes() is the witness by autograd.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def sigmoid_slope(x: Tensor) -> Tensor:
    """s (1 - s) at x of any shape, s the logistic sigmoid; at most 1/4.

    [EQ-SIGMOID]

    Source: GRAD-SAT, section 3.3.1.
    """
    return torch.sigmoid(x) * torch.sigmoid(-x)  # 1 - s would lose the digits of a small slope


def tanh_slope(x: Tensor) -> Tensor:
    """1 - tanh(x)^2 at x of any shape; at most 1.

    [EQ-TANH]

    Source: GRAD-SAT, section 3.3.1.
    """
    return 4 * sigmoid_slope(2 * x)


def relu_slope(x: Tensor) -> Tensor:
    """1 for x > 0, else 0, in x's shape and dtype.

    [EQ-RELU]

    Source: Nair & Hinton 2010, section 2.
    """
    return (x > 0).to(x.dtype)


def leaky_relu_slope(x: Tensor, negative: float = 0.01) -> Tensor:
    """1 for x > 0, else negative, in x's shape and dtype.

    [EQ-LEAKY-RELU]

    Source: Maas, Hannun & Ng 2013, section 2.
    """
    return negative + (1 - negative) * relu_slope(x)


def elu_slope(x: Tensor) -> Tensor:
    """1 for x > 0, else exp(x), in x's shape.

    [EQ-ELU]

    Source: Clevert, Unterthiner & Hochreiter 2016, section 3, with alpha = 1.
    """
    return x.clamp(max=0).exp()


def gelu_slope(x: Tensor) -> Tensor:
    """Phi(x) + x phi(x) at x of any shape, distribution function and density of N(0, 1).

    [EQ-GELU]

    Source: Hendrycks & Gimpel 2016, section 2.
    """
    return torch.special.ndtr(x) + x * torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)


def swish(x: Tensor, beta: float | Tensor = 1.0) -> Tensor:
    """x sigmoid(beta x) at x of any shape; beta = 1 is SiLU.

    [EQ-SWISH]

    Source: Ramachandran, Zoph & Le 2017, section 4.
    """
    return x * torch.sigmoid(beta * x)


def swish_slope(x: Tensor, beta: float | Tensor = 1.0) -> Tensor:
    """s + beta x s (1 - s) at x of any shape, s = sigmoid(beta x).

    [EQ-SWISH]

    Source: derived from EQ-SWISH.
    """
    return torch.sigmoid(beta * x) + beta * x * sigmoid_slope(beta * x)


class Activation(NamedTuple):
    """A function of tensors that acts on each entry alone, and its slope."""

    function: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


ACTIVATIONS = {
    "sigmoid": Activation(torch.sigmoid, sigmoid_slope),
    "tanh": Activation(torch.tanh, tanh_slope),
    "ReLU": Activation(torch.relu, relu_slope),
    "leaky ReLU": (
        Activation(functools.partial(F.leaky_relu, negative_slope=0.01), leaky_relu_slope)
    ),
    "ELU": Activation(F.elu, elu_slope),
    "GELU": Activation(F.gelu, gelu_slope),
    "SiLU": Activation(swish, swish_slope),
}
