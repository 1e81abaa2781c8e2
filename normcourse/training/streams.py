"""Hyper-connections: several streams beside the branches in place of one, and a matrix mixes them.

A fresh net computes what `residual_mlp` of the same seed does, whatever its mixing: all its streams
are copies of one, each branch reads one of them, writes into all, and no mixing tells copies apart.
"""

import torch
from torch import Tensor, nn

from normcourse.training.models import Block, MiddleMean, Norm, residual_mlp

MIXINGS = ("identity", "free", "doubly_stochastic")
OWN_STREAM = 5.0  # the logit of what a stream keeps: about 0.98 of itself at the start
ROUNDS = 10


def doubly_stochastic(logits: Tensor, rounds: int = ROUNDS) -> Tensor:
    """Positive matrices whose rows and columns add up to 1: (..., n, n) -> (..., n, n).

    Rows and columns are divided by their sums in turn (Sinkhorn & Knopp 1967); the columns come
    last, and the rows are as near to 1 as the rounds bring them.
    """
    matrix = logits.exp()
    for _ in range(rounds):
        matrix = matrix / matrix.sum(-1, keepdim=True)
        matrix = matrix / matrix.sum(-2, keepdim=True)
    return matrix


class MixedBlock(Block):
    """A Pre-LN block beside n streams: H x + w F(N(r x)), for x of shape (..., n, width).

    The branch reads the streams with the weights r and writes into each with a factor of w; H, an
    n by n matrix, mixes the streams. r, w and H are learned, and H may be held: "identity" keeps
    the streams apart, "free" holds nothing, "doubly_stochastic" holds rows and columns at sum 1.

    Sources: Zhu et al. 2024 (the static kind); Xie et al. 2025 (doubly stochastic).
    """

    def __init__(self, block: Block, number: int, streams: int, mixing: str) -> None:
        super().__init__(block.branch)
        if mixing not in MIXINGS:
            expected = ", ".join(map(repr, MIXINGS))
            raise ValueError(f"MixedBlock needs a mixing of {expected}, got {mixing!r}.")
        self.norm = block.norm
        self.mixing = mixing
        own = torch.eye(streams)
        self.read = nn.Parameter(own[number % streams].clone())
        self.write = nn.Parameter(torch.ones(streams, 1))
        if mixing == "identity":
            self.register_buffer("mix", own)
        elif mixing == "free":
            self.mix = nn.Parameter(own)
        else:
            self.mix = nn.Parameter(OWN_STREAM * own)

    def matrix(self) -> Tensor:
        """H, (n, n)."""
        return doubly_stochastic(self.mix) if self.mixing == "doubly_stochastic" else self.mix

    def forward(self, x: Tensor) -> Tensor:
        added = self.branch(self.norm(self.read @ x))
        return self.matrix() @ x + self.write * added.unsqueeze(-2)


class Copies(nn.Module):
    """(N, width) -> (N, streams, width)."""

    def __init__(self, streams: int) -> None:
        super().__init__()
        self.streams = streams

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-2).expand(-1, self.streams, -1)


def streams_mlp(
    norm: Norm | None = None,
    *,
    depth: int = 12,
    width: int = 32,
    streams: int = 4,
    mixing: str = "free",
    init: str = "xavier",
    seed: int = 0,
) -> nn.Sequential:
    """`residual_mlp` with Pre-LN and the same weights, its blocks beside several streams."""
    first, *blocks_and_end = residual_mlp(norm, depth=depth, width=width, init=init, seed=seed)
    mixed: list[nn.Module] = []
    for number, block in enumerate(blocks_and_end[:depth]):
        assert isinstance(block, Block)
        mixed.append(MixedBlock(block, number, streams, mixing))
    return nn.Sequential(first, Copies(streams), *mixed, MiddleMean(), *blocks_and_end[depth:])
