"""Depth and time: signal and gradient by layer, chains and paths, powers of a matrix."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn

from normcourse.measures.jacobians import spectral_norm
from normcourse.measures.saturation import normal_expectation

# What each layer of a model passes on, and what theory expects of it


def gradient_norms(layers: Iterable[nn.Module], loss: Callable[[], Tensor]) -> Tensor:
    """(calls,): |dL/d output| of each layer, in the order in which they ran; no .grad is touched.

    Args: layers: modules of one model, such as the model itself if it is a Sequential. One that
        runs more than once, as an RNN's cell, counts every time. loss: calls the model and returns
        the loss, one number.
    Raises: ValueError (no layers, or one that loss() does not reach); TypeError (an output that is
        no tensor); and what torch.autograd raises for a loss that is not one number.
    Source: n_k of EQ-DEPTH-DECAY.
    """
    with torch.enable_grad():
        value, outputs = _outputs(layers, loss)
        grads = torch.autograd.grad(value, outputs, materialize_grads=True)
    return torch.stack([torch.linalg.vector_norm(grad) for grad in grads])


def decay_rate(norms: Sequence[float] | Tensor) -> float:
    """lambda of n_0 = lambda^K n_K for gradient norms n_0 ... n_K, input to output.

    [EQ-DEPTH-DECAY]

    Raises: ValueError (fewer than two norms; a first or last that is not positive and finite).
    Source: GRAD-SAT, theorem 3.3.3, with the exponent corrected.
    """
    ends = [float(norms[0]), float(norms[-1])] if len(norms) > 1 else []
    if not ends or not all(0 < end < math.inf for end in ends):
        raise ValueError(
            "decay_rate needs two or more norms with positive, finite ends, "
            f"got {len(norms)}: {ends}. "
            "Use float64, or fewer layers, where a norm underflows to 0."
        )
    return (ends[0] / ends[1]) ** (1 / (len(norms) - 1))


def mean_field(
    function: Callable[[Tensor], Tensor],
    slope: Callable[[Tensor], Tensor],
    weight_gain: float,
    depth: int,
    start: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """(q (depth + 1,), rates (depth,)) of an infinitely wide net of random weights.

    [EQ-MEAN-FIELD]

    q: mean square of what enters each activation function, beginning with start.
    rates: the factor by which each layer multiplies the gradient's norm in the backward pass.
    Args: function, slope: of the activation. weight_gain: fan-in times variance of the weights; no
        biases.
    Source: Poole et al. 2016; Schoenholz et al. 2017.
    """

    def mean_square(f: Callable[[Tensor], Tensor], root: Tensor) -> Tensor:
        return weight_gain * normal_expectation(lambda z: f(root * z).square())

    q = [torch.tensor(start, dtype=torch.float64)]
    rates = []
    for _ in range(depth):
        root = q[-1].sqrt()
        rates.append(mean_square(slope, root).sqrt())
        q.append(mean_square(function, root))
    return torch.stack(q), torch.stack(rates) if rates else q[0].new_empty(0)


def _outputs(
    layers: Iterable[nn.Module], loss: Callable[[], Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """(the loss, the outputs of the layers in the order in which they ran)."""
    layers = list(layers)
    seen = set()
    outputs = []

    def keep(layer: nn.Module, _: tuple, output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise TypeError(
                f"{type(layer).__name__} returns {type(output).__name__}, not a tensor. "
                "Leave it out."
            )
        if not output.requires_grad:
            # nothing before it is learned: the graph begins here
            output = output.detach().requires_grad_()
        seen.add(layer)
        outputs.append(output)
        return output.clone()  # a next layer that works in place does not change what is kept

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        value = loss()
    finally:
        for handle in handles:
            handle.remove()
    idle = [type(layer).__name__ for layer in layers if layer not in seen]
    if idle or not layers:
        raise ValueError(
            f"Expected layers that run, got {idle or 'none'}. Pass modules that the call reaches."
        )
    return value, outputs


# A whole chain of layers in one number


def chain_bound(jacobians: Sequence[Tensor] | Tensor) -> Tensor:
    """The product of the layers' spectral norms: one number, at least the product's.

    [EQ-CHAIN-BOUND]

    Raises: ValueError (no layers).
    Source: Golub & Van Loan 2013, section 2.3; GRAD-SAT's "path depth".
    """
    if not len(jacobians):
        raise ValueError("chain_bound needs at least one Jacobian, got none. Pass one per layer.")
    return torch.stack([spectral_norm(jacobian) for jacobian in jacobians]).prod()


def path_norm(weights: Sequence[Tensor]) -> Tensor:
    """Root of the sum over all paths of the squared product of their weights, one number.

    [EQ-PATH-NORM]

    weights: (out, in) of each layer, the first layer first; biases are left out.
    One forward pass of ones through the squared weights adds up all paths.
    Raises: ValueError (no layers, or widths that do not meet).
    Source: Neyshabur, Salakhutdinov & Srebro 2015.
    """
    shapes = [tuple(weight.shape) for weight in weights]
    if not shapes or any(len(shape) != 2 for shape in shapes):
        raise ValueError(
            f"path_norm needs matrices (out, in), got {shapes}. Pass one weight per layer."
        )
    if any(out != fan_in for (out, _), (_, fan_in) in itertools.pairwise(shapes)):
        raise ValueError(
            f"path_norm needs layers whose widths meet, got {shapes}. Pass the first layer first."
        )
    total = weights[0].new_ones(shapes[0][1])
    for weight in weights:
        total = weight.square() @ total
    return total.sum().sqrt()


# Linear recurrences h_t = W^t h_0: eigenvalues decide in the end, singular values at every step


def eigenvalue_sizes(matrix: Tensor) -> Tensor:
    """(..., D) for matrices (..., D, D): |eigenvalue|, the largest first.

    [EQ-ROW-STOCHASTIC]

    Source: Golub & Van Loan 2013, section 7.1.
    """
    return _eigenvalues(matrix).abs().sort(-1, descending=True).values


def _eigenvalues(matrix: Tensor) -> Tensor:
    """(..., D) in no order.

    MKL's iteration fails on many matrices of rank one, and on none of full rank.
    """
    with suppress(torch.linalg.LinAlgError):
        return torch.linalg.eigvals(matrix)
    # Where no entry is above 1, no eigenvalue is above D: with 2 D on the diagonal all stay far
    # from 0.
    size = matrix.abs().amax((-2, -1), keepdim=True)
    unit = matrix / size.clamp(min=torch.finfo(matrix.dtype).tiny)
    dim = matrix.shape[-1]
    eye = torch.eye(dim, dtype=matrix.dtype, device=matrix.device)
    shifted = torch.linalg.eigvals(unit + 2 * dim * eye)
    return (shifted - 2 * dim) * size[..., 0]


def spectral_radius(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., D, D): the largest |eigenvalue|.

    [EQ-SPECTRAL-RADIUS]

    Never above spectral_norm, and far below it for matrices that are far from normal.
    Source: Horn & Johnson 2013, theorem 5.6.9.
    """
    return eigenvalue_sizes(matrix)[..., 0]


def power_norms(matrix: Tensor, steps: int) -> Tensor:
    """(steps + 1,): the spectral norms of W^0, W^1 ... W^steps for W (D, D).

    [EQ-POWERS]

    Each is the largest growth of any start in that many steps, between radius^t and norm^t.
    Raises: ValueError (steps below 0); torch's LinAlgError once a power has overflowed.
    Source: Horn & Johnson 2013, corollary 5.6.14 (Gelfand).
    """
    if steps < 0:
        raise ValueError(f"power_norms needs steps >= 0, got {steps}. Pass the number of steps.")
    power = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    norms = []
    for _ in range(steps + 1):
        norms.append(spectral_norm(power))
        power = matrix @ power
    return torch.stack(norms)
