"""Signal and gradient through depth: what each layer of a model passes on, and what theory expects of it."""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from normcourse.measures.quadrature import normal_expectation


def activation_rms(layers: Iterable[nn.Module], run: Callable[[], object]) -> Tensor:
    """(calls,): the root mean square of each layer's output, in the order in which they ran.

    Args: layers: modules of one model, such as the model itself if it is a Sequential. One that runs more
        than once, as an RNN's cell, counts every time. run: calls the model.
    Raises: ValueError (no layers, or one that run() does not reach); TypeError (an output that is no tensor).
    Source: q of EQ-RMS-MOMENTS, its root.
    """
    with torch.no_grad():
        _, outputs = _outputs(layers, run)
        return torch.stack([output.square().mean().sqrt() for output in outputs])


def gradient_norms(layers: Iterable[nn.Module], loss: Callable[[], Tensor]) -> Tensor:
    """(calls,): |dL/d output| of each layer, in the order in which they ran; no .grad is touched.

    Args: layers: as in activation_rms. loss: calls the model and returns the loss, one number.
    Raises: as activation_rms; and what torch.autograd raises for a loss that is not one number.
    Source: n_k of EQ-DEPTH-DECAY.
    """
    with torch.enable_grad():
        value, outputs = _outputs(layers, loss)
        grads = torch.autograd.grad(value, outputs, materialize_grads=True)
    return torch.stack([torch.linalg.vector_norm(grad) for grad in grads])


def parameter_gradient_norms(layers: Iterable[nn.Module], loss: Callable[[], Tensor]) -> Tensor:
    """(layers,): |dL/d parameters| of each layer, all of its parameters as one vector; no .grad is touched.

    A layer without parameters has 0, and so has one that the loss does not depend on.
    Raises: ValueError (no parameters at all).
    Source: what a step of gradient descent at rate 1 would move.
    """
    groups = [[p for p in layer.parameters() if p.requires_grad] for layer in layers]
    if not any(groups):
        raise ValueError(
            "Expected layers with parameters that are learned, got none. Pass a model's Linear layers."
        )
    with torch.enable_grad():
        value = loss()
        flat = [p for group in groups for p in group]
        grads = iter(torch.autograd.grad(value, flat, materialize_grads=True))
    squares = [sum((next(grads).square().sum() for _ in group), value.new_zeros(())) for group in groups]
    return torch.stack(squares).sqrt()


def decay_rate(norms: Sequence[float] | Tensor) -> float:
    """lambda of n_0 = lambda^K n_K for gradient norms n_0 ... n_K, input to output.  [EQ-DEPTH-DECAY]

    Raises: ValueError (fewer than two norms; a first or last that is not positive and finite).
    Source: GRAD-SAT, theorem 3.3.3, with the exponent corrected.
    """
    ends = [float(norms[0]), float(norms[-1])] if len(norms) > 1 else []
    if not ends or not all(0 < end < math.inf for end in ends):
        raise ValueError(
            f"decay_rate needs two or more norms with positive, finite ends, got {len(norms)}: {ends}. "
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
    """(q (depth + 1,), rates (depth,)) of an infinitely wide net of random weights.  [EQ-MEAN-FIELD]

    q: mean square of what enters each activation function, from start on; rates: the factor by which each
    layer multiplies the gradient's length on its way back.
    Args: function, slope: of the activation. weight_gain: fan-in times variance of the weights; no biases.
    Source: Poole et al. 2016, section 2; Schoenholz et al. 2017, section 4.
    """
    q, rates = [torch.tensor(start, dtype=torch.float64)], []
    for _ in range(depth):
        root = q[-1].sqrt()
        rates.append((weight_gain * normal_expectation(lambda z, r=root: slope(r * z).square())).sqrt())
        q.append(weight_gain * normal_expectation(lambda z, r=root: function(r * z).square()))
    return torch.stack(q), torch.stack(rates) if rates else q[0].new_empty(0)


def _outputs(layers: Iterable[nn.Module], run: Callable[[], object]) -> tuple[object, list[Tensor]]:
    """(what run returns, the outputs of the layers in the order in which they ran)."""
    layers, seen, outputs = list(layers), set(), []

    def keep(layer: nn.Module, _: tuple, output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise TypeError(
                f"{type(layer).__name__} returns {type(output).__name__}, not a tensor. Leave it out."
            )
        if torch.is_grad_enabled() and not output.requires_grad:
            output = output.detach().requires_grad_()  # nothing before it is learned: the graph begins here
        seen.add(layer)
        outputs.append(output)
        return output.clone()  # a next layer that works in place does not change what is kept

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        result = run()
    finally:
        for handle in handles:
            handle.remove()
    idle = [type(layer).__name__ for layer in layers if layer not in seen]
    if idle or not layers:
        raise ValueError(
            f"Expected layers that run, got {idle or 'none'}. Pass modules that the call reaches."
        )
    return result, outputs
