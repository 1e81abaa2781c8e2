"""Run a model on a few batches to look at its layers, and leave it as it was."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn


@torch.no_grad()
def run(model: nn.Module, batches: Iterable[Any]) -> Iterator[Any]:
    """The model's output for each batch, in eval mode; modes and torch's fast path come back."""
    modes = {module: module.training for module in model.modules()}
    is_fused = torch.backends.mha.get_fastpath_enabled()
    try:
        # it may pass nested tensors, which have no rows, and it passes the layers by
        torch.backends.mha.set_fastpath_enabled(False)
        model.eval()
        for batch in batches:
            if isinstance(batch, Mapping):
                yield model(**batch)
            elif isinstance(batch, tuple | list):
                yield model(*batch)
            else:
                yield model(batch)
    finally:
        torch.backends.mha.set_fastpath_enabled(is_fused)
        for module, mode in modes.items():
            module.training = mode


def check_batches(caller: str, name: str, batches: Iterable[Any]) -> None:
    if isinstance(batches, Tensor | Mapping):
        raise TypeError(
            f"{caller} needs a list of batches as {name}, got one batch. Put it in a list."
        )
