"""Small models with a pluggable norm, for pictures of size (channels, height, width) in ten classes."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Norm = Callable[[int], nn.Module] | None  # from a width (or channel count) to a layer; None for no norm
Size = tuple[int, int, int]
DIGIT: Size = (1, 8, 8)


def mlp(
    norm: Norm = None, *, depth: int = 4, width: int = 64, size: Size = DIGIT, seed: int = 0
) -> nn.Sequential:
    """depth times (Linear, norm, ReLU) and a Linear head: (N, C*H*W) -> (N, 10)."""
    layers = []
    for inputs in [math.prod(size)] + [width] * (depth - 1):
        layers += [nn.Linear(inputs, width), *_optional(norm, width), nn.ReLU()]
    return _he_init(nn.Sequential(*layers, nn.Linear(width, 10)), seed)


def residual_mlp(
    norm: Norm = None,
    *,
    depth: int = 8,
    width: int = 32,
    placement: str = "pre",
    size: Size = DIGIT,
    seed: int = 0,
) -> nn.Sequential:
    """A Linear layer, depth blocks around (Linear, ReLU, Linear), a head: (N, C*H*W) -> (N, 10)."""
    layers = [nn.Linear(math.prod(size), width)]
    for _ in range(depth):
        branch = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        layers.append(Block(branch, norm, width, placement))
    last = _optional(norm, width) if placement == "pre" else []
    return _he_init(nn.Sequential(*layers, *last, nn.Linear(width, 10)), seed)


def cnn(
    norm: Norm = None, *, depth: int = 2, channels: int = 8, size: Size = DIGIT, seed: int = 0
) -> nn.Sequential:
    """depth times (3x3 convolution, norm, ReLU), pooled to 2x2, a Linear head: (N, C, H, W) -> (N, 10)."""
    layers = []
    for inputs in [size[0]] + [channels] * (depth - 1):
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
    """Self-attention of heads over (N, tokens, width); qk_norm normalizes each head's queries and keys."""

    def __init__(self, width: int, heads: int, qk_norm: Norm = None) -> None:
        super().__init__()
        self.heads, self.qkv, self.output = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q_norm, self.k_norm = (
            nn.Identity() if qk_norm is None else qk_norm(width // heads) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.output(mixed.transpose(1, 2).flatten(2))


def transformer(
    norm: Norm = None,
    *,
    depth: int = 4,
    width: int = 32,
    heads: int = 4,
    placement: str = "pre",
    qk_norm: Norm = None,
    size: Size = DIGIT,
    seed: int = 0,
) -> nn.Sequential:
    """An encoder that reads a picture as tokens, its pixel rows: (N, C*H*W) -> (N, 10).

    Modules: rows, embed, positions, then depth times (attention block, MLP block), a last norm with
    placement "pre", the mean over tokens, the head.
    """
    channels, rows, columns = size
    layers = [_Rows(size), nn.Linear(channels * columns, width), _Position(rows, width)]
    for _ in range(depth):
        feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        branches = (Attention(width, heads, qk_norm), feed_forward)
        layers += [Block(branch, norm, width, placement) for branch in branches]
    last = _optional(norm, width) if placement == "pre" else []
    return _xavier_init(nn.Sequential(*layers, *last, _TokenMean(), nn.Linear(width, 10)), seed)


class _Rows(nn.Module):
    """(N, C*H*W) -> (N, H, C*W): one token for each row of pixels, all channels in it."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(1, self.size).transpose(1, 2).flatten(2)


class _Position(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(tokens, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class _TokenMean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


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
