"""Small models with a pluggable norm: for digits of 8 x 8 pixels, and for signals of 40 points."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Norm = Callable[[int], nn.Module]  # from a width (or channel count) to a layer
SIDE = 8  # pixels
PIXELS = SIDE * SIDE
CLASSES = 10
PLACEMENTS = ("pre", "post", "output", "sandwich")
NORMED = ("all", "branches", "last")
INITS = {  # standard deviation of the weights from (fan_in, fan_out)
    "he": lambda fan_in, fan_out: math.sqrt(2 / fan_in),
    "xavier": lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)),
    "torch": lambda fan_in, fan_out: math.sqrt(1 / (3 * fan_in)),  # of nn.Linear's own draw
    "default": lambda fan_in, fan_out: math.sqrt(1 / (3 * fan_in)),  # that draw, biases and all
}


def mlp(
    norm: Norm | None = None,
    *,
    depth: int = 4,
    width: int = 64,
    residual: bool = False,
    normed: str = "all",
    skip_init: bool = False,
    branch_gain: float = 1.0,
    init: str = "he",
    seed: int = 0,
) -> nn.Sequential:
    """depth times (Linear, norm, ReLU) and a Linear head: (N, 64) -> (N, 10).

    Args:
        residual: True makes a Block of each layer but the first: h + ReLU(Linear(norm(h))), with a
            last norm before the head. Nothing scales h on its way past the branch.
        normed: for residual networks: "branches" omits the norm before the head, "last" omits the
            norms of the Blocks.
        skip_init, branch_gain: the skip_init and gain of each Block.
        init: of INITS, the standard deviation of the weights; biases are 0, but for "default",
            which draws weights and biases as torch does.
    """
    _check_residual(residual, normed, skip_init, branch_gain)
    first = nn.Linear(PIXELS, width)
    layers: list[nn.Module]
    if residual:
        branches = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth - 1)]
        of_branch, of_head = _norms_at("mlp", normed, norm)
        how: dict = {"skip_init": skip_init, "gain": branch_gain}
        blocks = [Block(branch, of_branch, width, **how) for branch in branches]
        layers = [first, nn.ReLU(), *blocks, *_optional(of_head, width)]
    else:
        layers = [first, *_optional(norm, width), nn.ReLU()]
        for _ in range(depth - 1):
            layers.extend([nn.Linear(width, width), *_optional(norm, width), nn.ReLU()])
    return _init(nn.Sequential(*layers, nn.Linear(width, CLASSES)), init, seed)


def _check_residual(residual: bool, normed: str, skip_init: bool, branch_gain: float) -> None:
    if skip_init and not residual:
        raise ValueError("skip_init scales the branch of a residual block: pass residual=True too.")
    if branch_gain != 1.0 and not residual:
        raise ValueError(
            "branch_gain scales the branch of a residual block: pass residual=True too."
        )
    if normed != "all" and not residual:
        raise ValueError(f"normed={normed!r} is for residual networks: pass residual=True too.")


def _norms_at(net: str, normed: str, norm: Norm | None) -> tuple[Norm | None, Norm | None]:
    """The norm of the branches, and the one before the head."""
    if normed not in NORMED:
        expected = ", ".join(map(repr, NORMED))
        raise ValueError(f"{net} has norms at {expected}, got {normed!r}.")
    of_branch = None if normed == "last" else norm
    of_head = None if normed == "branches" else norm
    return of_branch, of_head


def residual_mlp(
    norm: Norm | None = None,
    *,
    depth: int = 8,
    width: int = 32,
    placement: str = "pre",
    normed: str = "all",
    skip_init: bool = False,
    fixup: bool = False,
    init: str = "he",
    seed: int = 0,
) -> nn.Sequential:
    """A Linear layer, depth blocks around (Linear, ReLU, Linear), a head: (N, 64) -> (N, 10).

    A last norm stands before the head, except with placement "post", whose blocks end with one.
    With fixup the branches are Fixup's, which need no norm, and the head starts at 0.

    Args:
        normed: "branches" leaves out the norm before the head, "last" those of the blocks.
    """
    of_branch, of_head = _norms_at("residual_mlp", normed, norm)
    layers: list[nn.Module] = [nn.Linear(PIXELS, width)]
    for _ in range(depth):
        plain = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        branch = FixupBranch(width) if fixup else plain
        layers.append(Block(branch, of_branch, width, placement, skip_init=skip_init))
    layers.extend(_last(of_head, width, placement))
    net = _init(nn.Sequential(*layers, nn.Linear(width, CLASSES)), init, seed)
    return _scaled_for_fixup(net, depth) if fixup else net


class FixupBranch(nn.Module):
    """(Linear, ReLU, Linear) with four scalar biases and a scalar gain, as in Zhang et al. 2019.

    residual_mlp scales its weights: the first by 1 / sqrt(depth), the second by 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width, bias=False)
        self.second = nn.Linear(width, width, bias=False)
        self.biases = nn.Parameter(torch.zeros(4))
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x + self.biases[0])
        h = F.relu(z + self.biases[1])
        return self.gain * self.second(h + self.biases[2]) + self.biases[3]


@torch.no_grad()
def _scaled_for_fixup(net: nn.Sequential, depth: int) -> nn.Sequential:
    for layer in net.modules():
        if isinstance(layer, FixupBranch):
            layer.first.weight.mul_(depth**-0.5)
            layer.second.weight.zero_()
    for parameter in net[-1].parameters():
        parameter.zero_()
    return net


def cnn(
    norm: Norm | None = None, *, depth: int = 2, channels: int = 8, seed: int = 0
) -> nn.Sequential:
    """depth times (3x3 convolution, norm, ReLU), pooled to 2x2, a head: (N, 1, 8, 8) -> (N, 10)."""
    layers = []
    for inputs in [1] + [channels] * (depth - 1):
        convolution = nn.Conv2d(inputs, channels, 3, padding=1)
        layers.extend([convolution, *_optional(norm, channels), nn.ReLU()])
    head = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, CLASSES)]
    return _init(nn.Sequential(*layers, *head), "he", seed)


def signal_cnn(
    norm: Norm | None = None,
    *,
    depth: int = 4,
    width: int = 16,
    residual: bool = False,
    normed: str = "all",
    skip_init: bool = False,
    branch_gain: float = 1.0,
    init: str = "torch",
    seed: int = 0,
) -> nn.Sequential:
    """depth convolutions of length 3 over a signal, pooled to 5, a head: (N, 1, 40) -> (N, 10).

    A ReLU follows the first convolution; each of the others is followed by the norm and a ReLU.
    The arguments are those of `mlp`: with residual=True each of the others becomes a Block,
    h + ReLU(Conv1d(norm(h))), and a last norm comes before the pooling.
    """
    _check_residual(residual, normed, skip_init, branch_gain)
    others = [nn.Conv1d(width, width, 3, padding=1) for _ in range(depth - 1)]
    layers: list[nn.Module] = [nn.Conv1d(1, width, 3, padding=1), nn.ReLU()]
    if residual:
        of_branch, of_head = _norms_at("signal_cnn", normed, norm)
        how: dict = {"skip_init": skip_init, "gain": branch_gain}
        branches = [nn.Sequential(convolution, nn.ReLU()) for convolution in others]
        layers.extend(Block(branch, of_branch, width, **how) for branch in branches)
        layers.extend(_optional(of_head, width))
    else:
        for convolution in others:
            layers.extend([convolution, *_optional(norm, width), nn.ReLU()])
    head = [nn.AdaptiveAvgPool1d(5), nn.Flatten(), nn.Linear(5 * width, CLASSES)]
    return _init(nn.Sequential(*layers, *head), init, seed)


class Block(nn.Module):
    """A residual connection past a branch F, with a norm N in one of four places, or none.

    placement   output               the norm comes                    as in
    pre         x + F(N(x))          before the branch   [EQ-PRE-LN]   GPT-2, Llama
    post        N(x + F(x))          after the sum       [EQ-POST-LN]  the first transformer
    output      x + N(F(x))          after the branch                  OLMo 2
    sandwich    x + N'(F(N(x)))      on both its sides                 Gemma 2

    The branch's output is multiplied by gain; with skip_init by a learned number that starts at 0.

    Sources: Xiong et al. 2020, figure 1 (pre, post); De & Smith 2020 (SkipInit).
    """

    def __init__(
        self,
        branch: nn.Module,
        norm: Norm | None = None,
        width: int | None = None,
        placement: str = "pre",
        *,
        skip_init: bool = False,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        if placement not in PLACEMENTS:
            expected = ", ".join(map(repr, PLACEMENTS))
            raise ValueError(f"Block needs a placement of {expected}, got {placement!r}.")
        self.branch = branch
        self.placement = placement
        self.norm = _norm_or_nothing(norm, width)
        if placement == "sandwich":
            self.output_norm = _norm_or_nothing(norm, width)
        self.gain = nn.Parameter(torch.zeros(())) if skip_init else gain

    def forward(self, x: Tensor) -> Tensor:
        if self.placement == "pre":
            return x + self._scaled(self.norm(x))
        if self.placement == "post":
            return self.norm(x + self._scaled(x))
        if self.placement == "output":
            return x + self.norm(self._scaled(x))
        return x + self.output_norm(self._scaled(self.norm(x)))

    def _scaled(self, x: Tensor) -> Tensor:
        return self.gain * self.branch(x)


def _norm_or_nothing(norm: Norm | None, width: int | None) -> nn.Module:
    if norm is None:
        return nn.Identity()
    if width is None:
        raise ValueError("Block needs the width of its norm, got None.")
    return norm(width)


class Attention(nn.Module):
    """Self-attention of heads over (N, tokens, width).

    qk_norm is for each head's queries and keys.
    """

    def __init__(self, width: int, heads: int, qk_norm: Norm | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.q_norm = _norm_or_nothing(qk_norm, width // heads)
        self.k_norm = _norm_or_nothing(qk_norm, width // heads)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # (N, tokens, width) each
        q = self.q_norm(self._split(q))
        k = self.k_norm(self._split(k))
        v = self._split(v)
        mixed = F.scaled_dot_product_attention(q, k, v)  # (N, heads, tokens, width / heads)
        return self.output(mixed.transpose(1, 2).flatten(2))  # (N, tokens, width)

    def _split(self, x: Tensor) -> Tensor:
        """(N, tokens, width) -> (N, heads, tokens, width / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def transformer(
    norm: Norm | None = None,
    *,
    depth: int = 4,
    width: int = 32,
    heads: int = 4,
    placement: str = "pre",
    skip_init: bool = False,
    qk_norm: Norm | None = None,
    seed: int = 0,
) -> nn.Sequential:
    """An encoder that reads a picture as tokens, its pixel rows: (N, 64) -> (N, 10).

    Modules: rows, embed, positions, then depth times (attention block, MLP block), a last norm
    except with placement "post", the mean over tokens, the head.
    """
    layers = [_Rows(), nn.Linear(SIDE, width), _Position(SIDE, width)]
    for _ in range(depth):
        attention = Attention(width, heads, qk_norm)
        expand = nn.Linear(width, 4 * width)
        feed_forward = nn.Sequential(expand, nn.ReLU(), nn.Linear(4 * width, width))
        layers.append(Block(attention, norm, width, placement, skip_init=skip_init))
        layers.append(Block(feed_forward, norm, width, placement, skip_init=skip_init))
    layers.extend(_last(norm, width, placement))
    return _init(nn.Sequential(*layers, MiddleMean(), nn.Linear(width, CLASSES)), "xavier", seed)


class _Rows(nn.Module):
    """(N, 64) -> (N, 8, 8): one token for each row of pixels."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (SIDE, SIDE))


class _Position(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(tokens, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class MiddleMean(nn.Module):
    """(N, tokens, width) -> (N, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def _optional(norm: Norm | None, width: int) -> list[nn.Module]:
    return [] if norm is None else [norm(width)]


def _last(norm: Norm | None, width: int, placement: str) -> list[nn.Module]:
    """Post-LN's blocks end with a norm; the stream of the others has none yet."""
    return [] if placement == "post" else _optional(norm, width)


@torch.no_grad()
def _init(model: nn.Sequential, init: str, seed: int) -> nn.Sequential:
    """Draw linear and convolution weights in float64, the same on every CPU.

    The weights are normal and the biases 0; with "default" both are uniform, as torch draws them.
    """
    if init not in INITS:
        raise ValueError(f"init is one of {', '.join(map(repr, INITS))}, got {init!r}.")
    generator = torch.Generator().manual_seed(seed)
    how: dict = {"dtype": torch.float64, "generator": generator}
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            fan_in = layer.weight[0].numel()
            std = INITS[init](fan_in, layer.weight.shape[0])
            uniform = init == "default"
            draw = _uniform if uniform else torch.randn
            layer.weight.copy_(std * draw(layer.weight.shape, **how))
            if layer.bias is not None and uniform:
                layer.bias.copy_(std * draw(layer.bias.shape, **how))
            elif layer.bias is not None:
                layer.bias.zero_()
    return model


def _uniform(shape: torch.Size, **how) -> Tensor:
    """As torch.randn, with mean 0 and standard deviation 1."""
    return math.sqrt(3) * (2 * torch.rand(shape, **how) - 1)


def seeded(net: nn.Sequential, seed: int = 0) -> nn.Sequential:
    """The net with torch's own draws of weights and biases, from a seed, the same on every CPU."""
    return _init(net, "default", seed)
