"""Several nets trained side by side: one more axis in front, one matrix product for all of them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normcourse.training.data import Data
from normcourse.training.loop import OPTIMIZERS
from normcourse.training.models import CLASSES, PIXELS

# from the shape of gain and bias, (nets, 1, width), to a layer for (nets, samples, width)
StackedNorm = Callable[[tuple[int, int, int]], nn.Module]


class StackedLinear(nn.Module):
    """A Linear layer of each of several nets: (nets, samples, inputs) -> (…, outputs)."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        nets, _, outputs = weight.shape
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(nets, 1, outputs))

    def forward(self, h: Tensor) -> Tensor:
        return h @ self.weight + self.bias


def stacked_mlp(
    depth: int,
    norm: StackedNorm | None = None,
    *,
    factor: float = 1.0,
    after: bool = False,
    nets: int = 5,
    width: int = 32,
    seed: int = 0,
) -> nn.Sequential:
    """Nets of depth times (Linear, norm, ReLU) and a head: (N, 64) -> (nets, N, 10).

    Args:
        factor: what He's standard deviation of the weights is multiplied by, but for the head.
        after: True puts the norm behind the ReLU.
    """
    generator = torch.Generator().manual_seed(seed)

    def linear(inputs: int, outputs: int, factor: float) -> StackedLinear:
        he = (2 / inputs) ** 0.5
        return StackedLinear(factor * he * torch.randn(nets, inputs, outputs, generator=generator))

    chain = nn.Sequential()
    for inputs in [PIXELS] + [width] * (depth - 1):
        chain.append(linear(inputs, width, factor))
        parts: list[nn.Module] = [nn.ReLU()]
        if norm is not None:
            parts.insert(1 if after else 0, norm((nets, 1, width)))
        chain.extend(parts)
    chain.append(linear(width, CLASSES, 1.0))
    return chain


def train_stacked(
    nets: nn.Sequential,
    data: Data,
    *,
    steps: int,
    lr: float = 0.1,
    hidden_lr: float | None = None,
    optimizer: str = "sgd",
    batch_size: int = 64,
    clip: float | None = None,
    after_step: Callable[[], None] | None = None,
    seed: int = 0,
) -> None:
    """Steps on shuffled full batches, the same for all nets; each gets its own gradient.

    The losses of the nets are added up, and no weight belongs to two of them.

    Args:
        hidden_lr: the rate of the weights of all Linear layers but the head, if it is another one.
        optimizer: "sgd" (no momentum) or "adam".
        clip: a net whose whole gradient is longer than this gets one of this length.
        after_step: called after each step; it may change the weights in place.

    Raises:
        ValueError: for a length to clip at that is not above 0.
    """
    if clip is not None and not clip > 0:
        raise ValueError(f"train_stacked clips at a length above 0, got {clip}. Pass 1.0 or None.")
    count = len(next(nets.parameters()))
    samples = len(data.train_y)
    generator = torch.Generator().manual_seed(seed)
    linears = [part for part in nets if isinstance(part, StackedLinear)]
    hidden = [linear.weight for linear in linears[:-1]]
    ids = set(map(id, hidden))
    others = [parameter for parameter in nets.parameters() if id(parameter) not in ids]
    update = OPTIMIZERS[optimizer](
        [
            {"params": hidden, "lr": lr if hidden_lr is None else hidden_lr},
            {"params": others, "lr": lr},
        ]
    )
    nets.train()
    batches: list[Tensor] = []
    for _ in range(steps):
        if not batches:
            order = torch.randperm(samples, generator=generator)
            batches = list(order.split(batch_size)[: samples // batch_size])
        batch = batches.pop(0)
        scores = nets(data.train_x[batch]).flatten(0, 1)  # (nets * batch_size, 10)
        labels = data.train_y[batch].repeat(count)
        loss = F.cross_entropy(scores, labels, reduction="sum") / batch_size
        update.zero_grad()
        loss.backward()
        if clip is not None:
            clip_each(nets, clip)
        update.step()
        if after_step is not None:
            after_step()


@torch.no_grad()
def clip_each(nets: nn.Sequential, longest: float) -> None:
    """Shortens the whole gradient of each net, over all its parameters, to this length at most.

    Each parameter holds all nets, one after the other.
    """
    count = len(next(nets.parameters()))
    gradients = [parameter.grad for parameter in nets.parameters() if parameter.grad is not None]
    by_net = [gradient.view(count, -1) for gradient in gradients]
    squares = [gradient.square().sum(1) for gradient in by_net]
    lengths = torch.stack(squares).sum(0).sqrt()  # (nets,)
    factors = (longest / (lengths + 1e-6)).clamp(max=1.0)  # as torch's clip_grad_norm_
    for gradient in by_net:
        gradient.mul_(factors[:, None])


@torch.no_grad()
def stacked_accuracy(nets: nn.Sequential, data: Data) -> Tensor:
    """Share of the validation pictures that each net names rightly, in eval mode: (nets,)."""
    nets.eval()
    named = nets(data.validation_x).argmax(-1)
    nets.train()
    return (named == data.validation_y).double().mean(-1)
