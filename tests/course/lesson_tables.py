"""What the tests of the tables "How sure is this?" share."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse.lesson import Notebook
from normcourse.training.data import Data
from normcourse.training.loop import _batches

OWN = "as in the lesson"
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def each(kinds: Iterable, quick: object = OWN) -> list:
    """A parameter a kind: make test runs the lesson's own (`quick`), make test-portable all."""
    return [pytest.param(kind, marks=[] if kind == quick else pytest.mark.slow) for kind in kinds]


def cells_of(lesson: str) -> dict[str, str]:
    """What stands in each cell of a lesson."""
    return {cell.id: cell.source for cell in Notebook(NOTEBOOKS / lesson).cells}


def run_cells(lesson: str, *parts: str | tuple[str, str]) -> dict:
    """What these cells of a lesson define; of a pair (cell, text) the cell runs up to the text."""
    cells = cells_of(lesson)
    names: dict = {}
    default = torch.get_default_dtype()
    for part in parts:
        cell, end = (part, "") if isinstance(part, str) else part
        source = cells[cell]
        if end:
            source = source[: source.index(end)]
        exec(compile(source, cell, "exec"), names)
    torch.set_default_dtype(default)
    return names


def train_at(
    rates: Iterable[float],
    net: nn.Module,
    data: Data,
    batch_size: int,
    seed: int,
    kind: type[torch.optim.Optimizer] = torch.optim.Adam,
) -> None:
    """As training.train, on the same batches, with one of these rates a step."""
    optimizer = kind(net.parameters())
    batches = _batches(data, batch_size, torch.Generator().manual_seed(seed))
    for rate, (x, y) in zip(rates, batches, strict=False):  # batches have no end
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
