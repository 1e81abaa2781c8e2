"""Checks of lesson 03a, RMSNorm in real models: one per exercise."""

import copy

import torch
from torch import Tensor, nn

from normcourse import draw, training
from normcourse.checks.probes import call, calls, forbid, same_gradients, unshared
from normcourse.checks.rms_rows import in_float64
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, every_case, exercise, expect
from normlib import functional, layers

# of half-precision outputs: float32 instead of float64 inside moves well under 0.1 %
MAX_DIFFERING = 0.02


@exercise("Exercise 1 (RMSNorm for every type)", "16 bits", "no finished one")
def every_type(student) -> None:
    """student(x, weight, eps) in float64, its gradient, then float16 and bfloat16.

    [EQ-RMS] [EQ-RMS-GRAD]
    """
    own = forbid(student, "rms_norm", "normlib")
    in_float64(own)
    _half_rows(own)


@exercise("Exercise 2 (Gemma's gain)", "the gain is 1 + stored")
def gemma_rms_norm(student) -> None:
    """student(x, stored, eps): the gain is 1 + stored, added in float32; one rounding.

    [EQ-RMS]
    """
    cases = [_gemma_case(4, 4, eps=0.1), _gemma_case(6, eps=0.3), _gemma_case(2, 3, 5, eps=0.2)]
    # float32 inside is what the exercise asks for, so float64 input may come out with float32's
    # accuracy.
    calls(student, _gemma, *cases, slips=GEMMA_SLIPS, rtol=1e-5, atol=1e-6)
    slips = {
        "the mean square is detached: it depends on x, so the gradient passes through it.": (
            lambda x, stored, eps: x / (x / _xhat(x, eps)).detach() * (1 + stored)
        )
    }
    same_gradients(student, _gemma, cases[-1], slips, rtol=1e-4, atol=1e-5)
    _gemma_in_bfloat16(student)
    _gemma_in_two_dtypes(student)
    large = (300 * draw(4, 64)).half()
    _no_overflow(call(student, x=large, stored=torch.zeros(64).half(), eps=1e-6))


def _gemma_case(*shape: int, eps: float) -> dict:
    return {"x": 1 + draw(*shape), "stored": 0.3 * draw(shape[-1], seed=1), "eps": eps}


def _xhat(x: Tensor, eps: float) -> Tensor:
    return functional.rms_norm(x, x.shape[-1:], eps=eps)


def _gemma(x: Tensor, stored: Tensor, eps: float) -> Tensor:
    return _xhat(x, eps) * (1 + stored)


GEMMA_SLIPS = {
    "the gain is 1 + stored: with stored = 0 the norm returns the normalized row, not 0.": (
        lambda x, stored, eps: _xhat(x, eps) * stored
    ),
    "1 + stored is the gain: put the sum in parentheses before you multiply.": (
        lambda x, stored, eps: 1 + stored * _xhat(x, eps)
    ),
    "stored is a gain, not a bias: multiply by 1 + stored.": (
        lambda x, stored, eps: _xhat(x, eps) + stored
    ),
    "the gain is missing: multiply by 1 + stored.": lambda x, stored, eps: _xhat(x, eps),
    "eps is missing: add it to the mean square.": lambda x, stored, eps: _gemma(x, stored, 0.0),
    "the gain is 1 + stored, not 1 - stored.": lambda x, stored, eps: _gemma(x, -stored, eps),
    "scale after the norm: you multiply x before its mean square is taken.": (
        lambda x, stored, eps: _xhat(x * (1 + stored), eps)
    ),
}


@exercise(
    "Exercise 3 (fold a network)",
    "make a new one",
    "net[1] (embed), net[2] (positions), net[3:-3] (blocks",
    "net[-3] (last norm) and net[-1] (head)",
    "branch[0] and branch[2] in the MLP",
)
def fold_network(student) -> None:
    """student(net) -> a net with RMSNorm in place of LayerNorm and the same outputs.

    [EQ-RMS-FOLD]
    """
    with every_case() as cases:
        for seed, (depth, width) in enumerate(((1, 8), (3, 12))):
            net = _restless(
                training.transformer(layers.LayerNorm, depth=depth, width=width, heads=2), seed
            )
            before = copy.deepcopy(net.state_dict())
            x = draw(5, 64, seed=9)
            want = net(x).detach()
            got = student(net)
            if not isinstance(got, nn.Module):
                raise Slip(f"expected a network, got {describe(got)}. Return the new net.")
            after = net.state_dict()
            if list(after) != list(before) or any(
                not torch.equal(after[name], before[name]) for name in before
            ):
                raise Slip("the net that was passed in has changed. Work on copy.deepcopy(net).")
            kinds = [type(module).__name__ for module in got.modules()]
            if "LayerNorm" in kinds:
                raise Slip(
                    f"{kinds.count('LayerNorm')} LayerNorm left: each becomes an RMSNorm, "
                    "the last one too."
                )
            if kinds.count("RMSNorm") != 2 * depth + 1:
                raise Slip(f"expected {2 * depth + 1} RMSNorm, found {kinds.count('RMSNorm')}.")
            wrong = {
                text: _converted(net, **left_out)(x).detach()
                for text, left_out in NETWORK_SLIPS.items()
            }
            logits = got(x).detach()
            cases.expect(logits, want, wrong, "the tensor of the logits", rtol=1e-8, atol=1e-10)
            unshared(net, got)


def _gemma_in_bfloat16(student) -> None:
    x, stored = (3 * draw(64, 256)).bfloat16(), (0.003 + 1e-4 * draw(256, seed=1)).bfloat16()
    xhat32 = functional.rms_norm(x.float(), (256,), eps=1e-6)
    slips = {
        "1 + stored was added in bfloat16, where 1.003 is 1: convert stored to float32 first.": (
            xhat32 * (1 + stored)
        ).bfloat16(),
        "x was rounded to bfloat16 before the gain, then the product again: multiply in float32.": (
            xhat32.bfloat16() * (1 + stored.float())
        ).bfloat16(),
    }
    truth = functional.rms_norm(x.double(), (256,), 1 + stored.double(), 1e-6)
    got = call(student, x=x, stored=stored, eps=1e-6)
    _expect_rounded((got, truth, torch.bfloat16, slips))


def _gemma_in_two_dtypes(student) -> None:
    for of_x, of_stored in ((torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)):
        x = draw(8, 16).to(of_x)
        stored = (0.3 * draw(16, seed=1)).to(of_stored)
        got = call(student, x=x, stored=stored, eps=0.1)
        _has_the_dtype_of_x(got, x, stored, "stored")


def _has_the_dtype_of_x(got, x: Tensor, gain: Tensor, name: str) -> None:
    if isinstance(got, Tensor) and got.dtype != x.dtype:
        raise Slip(
            f"for x in {_name(x.dtype)} and {name} in {_name(gain.dtype)} the output is "
            f"{got.dtype}: it has x's dtype."
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _half_rows(student) -> None:
    large = (300 * draw(4, 64)).half()
    _no_overflow(call(student, x=large, weight=torch.ones(64).half(), eps=1e-6))
    rounded = []
    for dtype in (torch.float16, torch.bfloat16):
        x, weight = draw(64, 256).to(dtype), (1 + 0.1 * draw(256, seed=1)).to(dtype)
        xhat = functional.rms_norm(x.float(), (256,), eps=1e-6)
        slips = {
            "x was rounded before the gain (Llama's order) and the product again, and two "
            "roundings miss the nearest value: multiply in float32, round once, "
            "at the end.": xhat.to(dtype) * weight
        }
        truth = functional.rms_norm(x.double(), (256,), weight.double(), 1e-6)
        rounded.append((call(student, x=x, weight=weight, eps=1e-6), truth, dtype, slips))
    _expect_rounded(*rounded)
    _two_dtypes(student)


def _two_dtypes(student) -> None:
    x, weight = draw(64, 256).bfloat16(), (1 + 0.1 * draw(256, seed=1)).float()
    got = call(student, x=x, weight=weight, eps=1e-6)
    _has_the_dtype_of_x(got, x, weight, "weight")
    xhat = functional.rms_norm(x.float(), (256,), eps=1e-6)
    slips = {
        "weight was rounded to x's dtype: multiply with it in float32.": (
            xhat * weight.bfloat16().float()
        ).bfloat16()
    }
    truth = functional.rms_norm(x.double(), (256,), weight.double(), 1e-6)
    _expect_rounded((got, truth, x.dtype, slips))


def _no_overflow(output) -> None:
    if isinstance(output, Tensor) and (not output.isfinite().all() or not output.any()):
        raise Slip(
            "float16 activations of size 300 come out as zeros (or not finite): 256 squared "
            "overflows. Convert x to float32 before you square it."
        )


def _expect_rounded(*cases: tuple) -> None:
    """Slip unless each result is the float64 truth rounded to its dtype.

    A few entries on a rounding boundary may differ. A case is (result, truth, dtype, {slip: wrong
    result}); all cases have the same slips.
    """
    differing = []
    for got, truth, dtype, _ in cases:
        if isinstance(got, Tensor) and got.shape == truth.shape and got.dtype != dtype:
            raise Slip(
                f"{_name(dtype)} input comes out as {got.dtype}: convert back to x.dtype at the "
                "end."
            )
        if not isinstance(got, Tensor) or got.shape != truth.shape:
            expect(got, truth.to(dtype))
        differing.append(_share_differing(got, truth.to(dtype)))
    if max(differing) <= MAX_DIFFERING:
        return
    for message in cases[0][-1]:
        if all(_share_differing(got, slips[message]) <= MAX_DIFFERING for got, *_, slips in cases):
            raise Slip(message)
    for share, (_, _, dtype, _) in zip(differing, cases, strict=True):
        if share > MAX_DIFFERING:
            raise Slip(
                f"{share:.0%} of the {_name(dtype)} outputs differ from the correctly rounded "
                "ones: compute in float32."
            )


def _share_differing(a: Tensor, b: Tensor) -> float:
    return (a != b).double().mean().item()


NETWORK_SLIPS: dict[str, dict] = {
    "the layers are swapped, and nothing is folded: centre everything that writes to the stream, "
    "and pass each norm's bias on to its reader.": {"writers": (), "biases": False},
    "the writers are not centred: embed, positions, and the last Linear of each branch.": {
        "writers": ()
    },
    "the positions are a writer, too: subtract the mean of each row of positions.weight.": {
        "writers": ("embed", "branches")
    },
    "the positions are centred along axis 0: that centres each feature over the places; "
    "the row is the last axis.": {"positions_axis": 0},
    "embed is a writer, too: it is the first that writes to the stream.": {
        "writers": ("positions", "branches")
    },
    "the branches write to the stream: "
    "centre attention's output and the second Linear of each MLP.": {
        "writers": ("embed", "positions")
    },
    "attention's output is a writer, too.": {"writers": ("embed", "positions", "mlp")},
    "the second Linear of each MLP is a writer, too.": {
        "writers": ("embed", "positions", "attention")
    },
    "the norms' biases are lost: add weight @ norm.bias to the bias of the layer that reads.": {
        "biases": False
    },
    "the last norm's bias is lost: the head reads it.": {"last_bias": False},
    "the norms' gains are lost: the new layer needs the old one's weight.": {"gains": False},
    "the mean over the output units is axis 0 of a weight; "
    "over axis 1 you centre the layer's input.": {"axis": 1},
    "the writers' biases are part of what they write: subtract their mean.": {
        "writer_biases": False
    },
    "the bias of a norm is added to the reader as it is; it goes through the reader's weight: "
    "weight @ norm.bias.": {"through": False},
    "the gain does not multiply the norm's bias: add weight @ norm.bias, without the gain.": {
        "gain_on_bias": True
    },
    "the first Linear of an MLP reads; the second one, branch[2], writes.": {"mlp_writer": 0},
    "the head reads the stream, and nothing reads the head: do not centre it.": {
        "writers": ("embed", "positions", "branches", "head")
    },
    "each new norm needs the old one's eps: layers.RMSNorm(norm.normalized_shape, eps=norm.eps).": {
        "keeps_eps": False
    },
}


@torch.no_grad()
def _restless(net: nn.Module, seed: int) -> nn.Module:
    """The net with random numbers in everything that a fresh one has at 0 or 1."""
    for number, parameter in enumerate(net.parameters()):
        if parameter.dim() == 1 or parameter.shape[0] == 8:
            parameter.add_(0.3 + 0.3 * draw(*parameter.shape, seed=100 * seed + number))
    return net


@torch.no_grad()
def _converted(
    net,
    *,
    writers: tuple = ("embed", "positions", "branches"),
    biases: bool = True,
    last_bias: bool = True,
    gains: bool = True,
    axis: int = 0,
    positions_axis: int = -1,
    writer_biases: bool = True,
    through: bool = True,
    gain_on_bias: bool = False,
    mlp_writer: int = 2,
    keeps_eps: bool = True,
) -> nn.Module:
    """What is to be returned, or with something left out."""
    net = copy.deepcopy(net)
    _, embed, positions, *blocks, last, _, head = net
    norms = [(block, "norm", _ends(block.branch)[0]) for block in blocks]
    written = [embed] if "embed" in writers else []
    for block in blocks:
        kind = "attention" if isinstance(block.branch, training.Attention) else "mlp"
        if "branches" in writers or kind in writers:
            written.append(block.branch[mlp_writer] if kind == "mlp" else block.branch.output)
    if "head" in writers:
        written.append(head)
    for layer in written:
        layer.weight -= layer.weight.mean(axis, keepdim=True)
        if writer_biases:
            layer.bias -= layer.bias.mean()
    if "positions" in writers:
        positions.weight -= positions.weight.mean(positions_axis, keepdim=True)
    for owner, name, reader in [*norms, (net, str(len(net) - 3), head)]:
        norm = getattr(owner, name)
        if biases and (last_bias or norm is not last):
            if gain_on_bias:
                reader.bias += reader.weight @ (norm.weight * norm.bias)
            elif through:
                reader.bias += reader.weight @ norm.bias
            else:
                reader.bias += norm.bias.mean()
        eps = {"eps": norm.eps} if keeps_eps else {}
        new = layers.RMSNorm(norm.normalized_shape, **eps)
        if gains:
            new.load_state_dict({"weight": norm.weight})
        setattr(owner, name, new)
    return net


def _ends(branch) -> tuple[nn.Linear, nn.Linear]:
    """The layer that reads the stream, and the one that writes to it."""
    if isinstance(branch, training.Attention):
        return branch.qkv, branch.output
    return branch[0], branch[2]
