"""The one training loop the lessons share: seeded, quiet, and it returns a record."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normcourse.training.data import Data
from normcourse.training.decay import decay_groups
from normcourse.training.looks import accuracy

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "sgd_momentum": partial(torch.optim.SGD, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


@dataclass
class Record:
    """What one training run did: losses, one a step; accuracies, one at each of steps."""

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
    data: Data,
    *,
    steps: int = 200,
    batch_size: int = 64,
    lr: float = 1e-2,
    optimizer: str = "sgd",
    warmup: int = 0,
    decay_to_zero: bool = False,
    seed: int = 0,
    evaluate_every: int | None = None,
    clip: float | None = None,
    weight_decay: float = 0.0,
    decayed: str = "matrices",
    watch: Callable[[nn.Module], object] | None = None,
    name: str = "",
) -> Record:
    """Minimize the cross-entropy on shuffled batches; the model is changed in place.

    Args:
        optimizer: "sgd" (no momentum), "sgd_momentum" (0.9), "adam" or "adamw".
        warmup: steps over which the learning rate rises linearly to lr.
        decay_to_zero: True lowers the learning rate linearly over all steps, from lr to 0.
        seed: of the order of the batches only; a model is seeded where it is built.
        evaluate_every: steps between two looks at the validation accuracy; None looks at the end.
        clip: a longer gradient, of all parameters together, is shortened to this length.
        weight_decay, decayed: what is pulled to 0, and how strongly: decay_groups. "adamw" takes it
            from the weights, the others add it to the gradient.
        watch: called after each backward pass and before the clipping; what it returns is kept in
            the record.
    Returns: the record. A loss that is not finite ends the run, with diverged True.
    Raises: ValueError (a batch larger than the training data, an optimizer of another name, a
        length to clip at that is not above 0).
    """
    _check(optimizer, batch_size, len(data.train_y), clip)
    update = OPTIMIZERS[optimizer](decay_groups(model, weight_decay, decayed), lr=lr)
    record = Record(name, seed, lr, batch_size)
    batches = _batches(data, batch_size, torch.Generator().manual_seed(seed))
    falling = 1 if decay_to_zero else 0
    model.train()
    for step in _progress(steps, name):
        for group in update.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / (warmup + 1)) * (1 - falling * step / steps)
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
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        update.step()
        if step + 1 == steps or (evaluate_every and (step + 1) % evaluate_every == 0):
            record.steps.append(step + 1)
            right = accuracy(model, data.validation_x, data.validation_y)
            record.validation_accuracy.append(right)
    return record


def _check(optimizer: str, batch_size: int, samples: int, clip: float | None) -> None:
    if optimizer not in OPTIMIZERS:
        expected = " or ".join(map(repr, OPTIMIZERS))
        raise ValueError(f"train needs {expected} as optimizer, got {optimizer!r}.")
    if not 1 <= batch_size <= samples:
        raise ValueError(
            f"train needs a batch_size from 1 to the {samples} training samples, got {batch_size}."
        )
    if clip is not None and not clip > 0:
        raise ValueError(f"train clips at a length above 0, got {clip}. Pass 1.0, say, or None.")


def _batches(
    data: Data, batch_size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        order = torch.randperm(len(data.train_y), generator=generator)
        for start in range(0, len(order) - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size]
            yield data.train_x[chosen], data.train_y[chosen]


def _progress(steps: int, name: str) -> Iterable[int]:
    """A bar for people: in `make lab` and in a terminal, never in a stored output."""
    in_the_lab = bool(os.environ.get("NORMLIB_PROGRESS"))
    if not (in_the_lab or sys.stderr.isatty()):
        return range(steps)
    try:
        from tqdm import tqdm
    except ImportError:  # a bar is a convenience
        return range(steps)
    # What the lab is told as an error stays as a red bar when its text has been erased.
    where = sys.stdout if in_the_lab else sys.stderr
    return tqdm(range(steps), desc=name, leave=False, file=where)
