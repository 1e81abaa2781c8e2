"""The passes of a function that are timed: forward, forward and backward, backward alone."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def timed_pass(candidate: Callable) -> str:
    """Which pass a candidate is; the contenders of one measurement are all the same."""
    return getattr(candidate, "timed_pass", "plain call")


@dataclass(frozen=True)
class _Autograd:
    """A candidate that goes through autograd: its call, its pass, what is made of a set before."""

    call: Callable
    timed_pass: str
    prepare: Callable | None = None

    def __call__(self, grad_output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        return self.call(grad_output, *inputs)


def forward_backward(f: Callable) -> Callable:
    """A candidate made of f: called with (grad_output, *inputs), it returns the inputs' gradients.

    Only of floating inputs, and without those that f does not use.
    """

    def both(grad_output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        output, leaves = _graph(f, inputs)
        return _used(torch.autograd.grad(output, leaves, grad_output, allow_unused=True))

    return _Autograd(both, "forward and backward through autograd")


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

    return _Autograd(backward, "backward through autograd", prepare)


def _used(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    return tuple(gradient for gradient in gradients if gradient is not None)


def _graph(f: Callable, inputs: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor]]:
    inputs = tuple(x.detach().requires_grad_(x.is_floating_point()) for x in inputs)
    leaves = [x for x in inputs if x.requires_grad]
    with torch.enable_grad():
        return f(*inputs), leaves
