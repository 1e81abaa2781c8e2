"""What the lessons train: real data in the box, small models with a pluggable norm, one seeded loop."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

Norm = Callable[[int], nn.Module] | None  # from a width (or channel count) to a layer; None for no norm
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
SPLIT_SEED, TRAIN, VALIDATION = 0, 1000, 397  # of 1,797 digits; the other 400 are for the test


@dataclass(frozen=True)
class Digits:
    """Handwritten digits, 8 by 8 pixels: x (N, 64) in the default dtype, y (N,) of labels 0 to 9."""

    train_x: Tensor
    train_y: Tensor
    validation_x: Tensor
    validation_y: Tensor
    test_x: Tensor
    test_y: Tensor

    def images(self) -> "Digits":
        """The same with x as images (N, 1, 8, 8)."""
        x = {
            name: getattr(self, name).unflatten(1, (1, 8, 8))
            for name in ("train_x", "validation_x", "test_x")
        }
        return replace(self, **x)


def digits() -> Digits:
    """scikit-learn's bundled digits in a fixed split; mean 0 and std 1 over the training pixels.

    Source: UCI Optical Recognition of Handwritten Digits, test part (Alpaydin & Kaynak 1998).
    """
    from sklearn.datasets import load_digits  # here: it takes a second, and not every user needs it

    pixels, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    x, y = pixels[order].double(), labels[order].long()
    x = ((x - x[:TRAIN].mean()) / x[:TRAIN].std()).to(torch.get_default_dtype())
    sizes = (TRAIN, VALIDATION, len(y) - TRAIN - VALIDATION)
    return Digits(*(part for pair in zip(x.split(sizes), y.split(sizes), strict=True) for part in pair))


def mlp(norm: Norm = None, *, depth: int = 4, width: int = 64, seed: int = 0) -> nn.Sequential:
    """depth times (Linear, norm, ReLU) and a Linear head: (N, 64) -> (N, 10)."""
    layers = []
    for inputs in [64] + [width] * (depth - 1):
        layers += [nn.Linear(inputs, width), *_optional(norm, width), nn.ReLU()]
    return _he_init(nn.Sequential(*layers, nn.Linear(width, 10)), seed)


def cnn(norm: Norm = None, *, depth: int = 2, channels: int = 8, seed: int = 0) -> nn.Sequential:
    """depth times (3x3 convolution, norm, ReLU), pooled to 2x2, a Linear head: (N, 1, 8, 8) -> (N, 10)."""
    layers = []
    for inputs in [1] + [channels] * (depth - 1):
        layers += [nn.Conv2d(inputs, channels, 3, padding=1), *_optional(norm, channels), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 10)]
    return _he_init(nn.Sequential(*layers, *head), seed)


class Block(nn.Module):
    """A residual branch, its norm before the branch (pre) or after the sum (post).  [EQ-PRE-LN] [EQ-POST-LN]

    Source: Xiong et al. 2020, figure 1.
    """

    def __init__(self, branch: nn.Module, norm: Norm, width: int, placement: str) -> None:
        super().__init__()
        if placement not in ("pre", "post"):
            raise ValueError(f"Block needs placement 'pre' or 'post', got {placement!r}.")
        self.branch, self.placement = branch, placement
        self.norm = nn.Identity() if norm is None else norm(width)

    def forward(self, x: Tensor) -> Tensor:
        if self.placement == "pre":
            return x + self.branch(self.norm(x))
        return self.norm(x + self.branch(x))


class Attention(nn.Module):
    """Self-attention of heads over (N, tokens, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.output = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def transformer(
    norm: Norm = None,
    *,
    depth: int = 4,
    width: int = 32,
    heads: int = 4,
    placement: str = "pre",
    seed: int = 0,
) -> nn.Sequential:
    """An encoder that reads a digit as 8 tokens, its pixel rows: (N, 64) -> (N, 10).

    Modules: unflatten, embed, then depth times (attention block, MLP block), a last norm with placement
    "pre", the mean over tokens, the head.
    """
    layers = [nn.Unflatten(1, (8, 8)), nn.Linear(8, width), _Position(width)]
    for _ in range(depth):
        feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        layers += [
            Block(branch, norm, width, placement) for branch in (Attention(width, heads), feed_forward)
        ]
    last = _optional(norm, width) if placement == "pre" else []
    return _xavier_init(nn.Sequential(*layers, *last, _TokenMean(), nn.Linear(width, 10)), seed)


class _Position(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class _TokenMean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


@dataclass
class Record:
    """What one training run did. losses holds one number a step, accuracies one at each of steps."""

    name: str
    seed: int
    lr: float
    batch_size: int
    losses: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    validation_accuracy: list[float] = field(default_factory=list)
    watched: list = field(default_factory=list)
    diverged: bool = False


def train(
    model: nn.Module,
    data: Digits,
    *,
    steps: int = 200,
    batch_size: int = 64,
    lr: float = 1e-2,
    optimizer: str = "sgd",
    warmup: int = 0,
    seed: int = 0,
    evaluate_every: int | None = None,
    watch: Callable[[nn.Module], object] | None = None,
    name: str = "",
) -> Record:
    """Minimize the cross-entropy on shuffled batches; the model is changed in place.

    Args:
        optimizer: "sgd" (no momentum) or "adam".
        warmup: steps over which the learning rate rises linearly to lr.
        seed: of the order of the batches only; a model is seeded where it is built.
        evaluate_every: steps between two looks at the validation accuracy; None looks once, at the end.
        watch: called after each backward pass; what it returns is kept in the record.
    Returns: the record. A loss that is not finite ends the run, with diverged True.
    """
    update = OPTIMIZERS[optimizer](model.parameters(), lr=lr)
    record = Record(name, seed, lr, batch_size)
    batches = _batches(data, batch_size, torch.Generator().manual_seed(seed))
    model.train()
    for step in _progress(steps, name):
        for group in update.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / (warmup + 1))
        x, y = next(batches)
        loss = F.cross_entropy(model(x), y)
        update.zero_grad()
        loss.backward()
        record.losses.append(loss.item())
        if watch is not None:
            record.watched.append(watch(model))
        if not math.isfinite(loss.item()):
            record.diverged = True
            break
        update.step()
        if step + 1 == steps or (evaluate_every and (step + 1) % evaluate_every == 0):
            record.steps.append(step + 1)
            record.validation_accuracy.append(accuracy(model, data.validation_x, data.validation_y))
    return record


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of right labels in eval mode; the model's mode is restored."""
    was_training = model.training
    model.eval()
    share = (model(x).argmax(1) == y).double().mean().item()
    model.train(was_training)
    return share


def _batches(data: Digits, batch_size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        order = torch.randperm(len(data.train_y), generator=generator)
        for start in range(0, len(order) - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size]
            yield data.train_x[chosen], data.train_y[chosen]


def _progress(steps: int, name: str):
    """A bar for people: in `make lab` and in a terminal, never in a stored output."""
    wanted = bool(os.environ.get("NORMLIB_PROGRESS")) or sys.stderr.isatty()
    return tqdm(range(steps), desc=name, leave=False, disable=not wanted)


def _optional(norm: Norm, size: int) -> list[nn.Module]:
    return [] if norm is None else [norm(size)]


def _he_init(model: nn.Module, seed: int) -> nn.Module:
    return _init(model, seed, lambda fan_in, fan_out: math.sqrt(2 / fan_in))


def _xavier_init(model: nn.Module, seed: int) -> nn.Module:
    return _init(model, seed, lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)))


@torch.no_grad()
def _init(model: nn.Module, seed: int, std: Callable[[int, int], float]) -> nn.Module:
    """Draw the weights of linear and convolution layers in float64 (the same on every CPU); biases are 0."""
    generator = torch.Generator().manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            fan_in, fan_out = layer.weight[0].numel(), layer.weight.shape[0]
            draw = torch.randn(layer.weight.shape, dtype=torch.float64, generator=generator)
            layer.weight.copy_(draw * std(fan_in, fan_out))
            layer.bias.zero_()
    return model
