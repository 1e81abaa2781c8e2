"""The passes of a function that are timed: forward, forward and backward, backward alone."""

from collections.abc import Callable

import torch
from torch import Tensor


def timed_pass(candidate: Callable) -> str:
    """Which pass a candidate is; the contenders of one measurement are all the same."""
    return getattr(candidate, "timed_pass", "plain call")


def forward_backward(f: Callable) -> Callable:
    """A candidate made of f: called with (grad_output, *inputs), it returns the inputs' gradients.

    Only of floating inputs, and without those that f does not use.
    """

    def both(grad_output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        output, leaves = _graph(f, inputs)
        return _used(torch.autograd.grad(output, leaves, grad_output, allow_unused=True))

    both.timed_pass = "forward and backward through autograd"
    return both


def backward_of(f: Callable) -> Callable:
    """As `forward_backward`, but only the backward is timed.

    `prepare` builds each set's graph before.
    """

    def prepare(grad_output: Tensor, *inputs: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        output, leaves = _graph(f, inputs)

        def run() -> tuple[Tensor, ...]:
            found = torch.autograd.grad(
                output, leaves, grad_output, retain_graph=True, allow_unused=True
            )
            return _used(found)

        return run

    def backward(grad_output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        return prepare(grad_output, *inputs)()

    backward.timed_pass = "backward through autograd"
    backward.prepare = prepare
    return backward


def _used(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    return tuple(gradient for gradient in gradients if gradient is not None)


def _graph(f: Callable, inputs: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor]]:
    inputs = tuple(x.detach().requires_grad_(x.is_floating_point()) for x in inputs)
    leaves = [x for x in inputs if x.requires_grad]
    with torch.enable_grad():
        return f(*inputs), leaves
