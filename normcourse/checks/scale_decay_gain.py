"""Checks of lesson 03b, scale, decay and gains: one per exercise."""

import copy
import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normcourse import draw, training
from normcourse.checks.probes import call, calls
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, every_case, exercise
from normlib import layers

CONVENTIONS = ("plain", "offset", "unclear")


@exercise("Exercise 1 (the rate that the direction feels)")
def effective_rate(student) -> None:
    """student(lr, w): the rate that moves w / |w| as far as lr moves w.

    [EQ-SCALE-FREE]
    """
    cases = [
        {"lr": 0.1, "w": torch.tensor([3.0, 4.0], dtype=torch.float64)},
        {"lr": 0.03, "w": 0.2 * draw(7)},
        {"lr": 2.0, "w": 3 * draw(3, 5)},
    ]
    calls(student, _rate(lambda w: w.norm() ** 2), *cases, slips=RATE_SLIPS)


def _rate(divisor):
    return lambda lr, w: lr / float(divisor(w))


RATE_SLIPS = {
    "the length counts twice: the gradient is divided by it, and so is what a step does to the "
    "direction.": _rate(lambda w: w.norm()),
    "longer weights feel a smaller rate: divide by the squared length.": (
        _rate(lambda w: w.norm() ** -2)
    ),
    "longer weights feel a smaller rate: divide, and by the squared length.": (
        _rate(lambda w: 1 / w.norm())
    ),
    "the squared length is the sum of the squares, not their mean.": (
        _rate(lambda w: w.square().mean())
    ),
    "the root of the mean square is not the length, and the length counts twice.": (
        _rate(lambda w: w.square().mean().sqrt())
    ),
    "square first, then sum: you square the sum of the weights.": _rate(lambda w: w.sum() ** 2),
    "the length is the root of the sum of the squares; you sum their sizes.": (
        _rate(lambda w: w.abs().sum() ** 2)
    ),
    "twice is enough: the gradient is divided by the length once, the step's effect once.": (
        _rate(lambda w: w.norm() ** 4)
    ),
    "the squared length is the sum of the squares; how many weights there are does not count.": (
        _rate(lambda w: w.norm() ** 2 * w.numel())
    ),
    "the length of a matrix is the root of the sum of all its squares; you take its spectral "
    "norm.": _rate(lambda w: torch.linalg.norm(w, ord=2) ** 2),
    "the length counts: the direction does not feel lr itself.": _rate(lambda w: 1.0),
}


@exercise("Exercise 2 (where growth and decay balance)", "`1 - lr * decay`")
def equilibrium_length(student) -> None:
    """student(lr, decay, slope): the length at which SGD's growth and its decay are equal.

    [EQ-EQUILIBRIUM]
    """
    cases = [
        {"lr": 0.1, "decay": 0.01, "slope": 3.0},
        {"lr": 0.5, "decay": 0.02, "slope": 0.7},
        {"lr": 0.003, "decay": 0.3, "slope": 11.0},
    ]
    calls(student, settled_length, *cases, slips=LENGTH_SLIPS)


def settled_length(lr: float, decay: float, slope: float) -> float:
    """It stands in for the reader's function until that is right."""
    return (lr * slope**2 / (2 * decay)) ** 0.25


LENGTH_SLIPS = {
    "the 2 is missing: a decay of the length by lr * decay takes twice that from its square.": (
        lambda lr, decay, slope: (lr * slope**2 / decay) ** 0.25
    ),
    "the 2 stands below: decay takes 2 lr decay of the squared length.": (
        lambda lr, decay, slope: (2 * lr * slope**2 / decay) ** 0.25
    ),
    "you found the fourth power of the length: take the fourth root.": (
        lambda lr, decay, slope: lr * slope**2 / (2 * decay)
    ),
    "you found the squared length: take the root once more.": (
        lambda lr, decay, slope: (lr * slope**2 / (2 * decay)) ** 0.5
    ),
    "the gradient at this length is slope / length: then the fourth power stands alone.": (
        lambda lr, decay, slope: (lr * slope**2 / (2 * decay)) ** (1 / 3)
    ),
    "the slope counts squared: by Pythagoras the squared step is added.": (
        lambda lr, decay, slope: (lr * slope / (2 * decay)) ** 0.25
    ),
    "lr counts squared in the growth and once in the decay: one lr is left.": (
        lambda lr, decay, slope: (lr**2 * slope**2 / (2 * decay)) ** 0.25
    ),
    "torch's decay comes times lr: one lr goes away.": (
        lambda lr, decay, slope: (slope**2 / (2 * decay)) ** 0.25
    ),
    "more decay makes the weights shorter: it stands below.": (
        lambda lr, decay, slope: (lr * slope**2 * decay / 2) ** 0.25
    ),
    "lr and decay have changed places: a larger rate makes the weights longer.": (
        lambda lr, decay, slope: (decay * slope**2 / (2 * lr)) ** 0.25
    ),
    "this is the exact balance. Leave out what is of second order: 2 lr decay in the place of "
    "1 - (1 - lr decay)^2.": (
        lambda lr, decay, slope: ((lr * slope) ** 2 / (1 - (1 - lr * decay) ** 2)) ** 0.25
    ),
    "4 is not the factor: the square of 1 - lr decay is about 1 - 2 lr decay.": (
        lambda lr, decay, slope: (lr * slope**2 / (4 * decay)) ** 0.25
    ),
}


@exercise(
    "Exercise 3 (what decays, and what does not)", "two axes or more", "with `weight_decay` 0"
)
def decay_groups(student) -> None:
    """student(net, decay) -> two groups for AdamW: matrices with decay, the rest without."""
    for net in (_assorted(), _tied()):
        before = copy.deepcopy(net.state_dict())
        groups = student(net, 0.3)
        _are_groups(groups)
        _expect_decays(_decays(groups, net), net)
        if any(not torch.equal(before[name], value) for name, value in net.state_dict().items()):
            raise Slip("the net was changed: collect its parameters, and change none.")


def _assorted() -> nn.Module:
    """Norms of several kinds and names, a convolution, a single alpha, and a gain of shape ()."""
    stem = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3))
    block = nn.ModuleDict({"norm": layers.RMSNorm(4), "linear": nn.Linear(4, 5)})
    block.register_parameter("gain", nn.Parameter(torch.ones(())))
    net = nn.Sequential(stem, block, nn.LayerNorm(5), layers.DyT(5), nn.Linear(5, 2, bias=False))
    return net.double()


def _tied() -> nn.Module:
    embedding = nn.Embedding(6, 4)
    head = nn.Linear(4, 6)
    head.weight = embedding.weight
    return nn.Sequential(embedding, nn.LayerNorm(4), head).double()


def _are_groups(groups) -> None:
    if groups is Ellipsis:
        raise NotImplementedError
    shape = "expected a list of dicts with the keys 'params' and 'weight_decay'"
    if not isinstance(groups, list | tuple) or not all(isinstance(g, dict) for g in groups):
        raise Slip(f"the result is {describe(groups)}, {shape}.")
    for group in groups:
        if "params" not in group:
            raise Slip(f"a group has the keys {sorted(group)}, {shape}.")
        if "weight_decay" not in group:
            raise Slip(
                "a group says nothing of weight_decay: AdamW then takes its own default of 0.01, "
                "which is not 0. Say it in both groups."
            )


def _decays(groups, net: nn.Module) -> dict[str, float]:
    """{name: decay} of each parameter; Slip if one is missing or there twice."""
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    found: dict[str, float] = {}
    for group in groups:
        params = [group["params"]] if isinstance(group["params"], Tensor) else group["params"]
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise Slip(f"'params' holds {describe(parameter)}, expected parameters.")
            name = names.get(id(parameter))
            if name is None:
                raise Slip("'params' holds a tensor that is no parameter of the net: a copy?")
            if name in found:
                raise Slip(
                    f"{name} is there twice (two layers share it): each parameter goes into one "
                    "group, once."
                )
            found[name] = group["weight_decay"]
    lost = [name for name in names.values() if name not in found]
    if lost:
        raise Slip(f"{lost[0]} is in no group, so nothing would train it.")
    return found


def _expect_decays(found: dict[str, float], net: nn.Module) -> None:
    parameters = dict(net.named_parameters())
    want = {name: 0.3 if p.dim() >= 2 else 0.0 for name, p in parameters.items()}
    wrong = [name for name in want if found[name] != want[name]]
    if not wrong:
        return
    if all(found[name] == 0.3 - want[name] for name in want):
        raise Slip("the groups have changed places: the matrices decay.")
    if all(value == 0.3 for value in found.values()):
        raise Slip("everything decays: gains and biases have one axis, and go into the second.")
    if not any(found.values()):
        raise Slip("nothing decays: matrices get weight_decay=decay.")
    name = wrong[0]
    shape = tuple(parameters[name].shape)
    if want[name]:
        raise Slip(f"{name} of shape {shape} does not decay: it has two axes or more.")
    if found[name] != 0.3:
        raise Slip(f"{name} has weight_decay {found[name]}, expected 0.")
    if "bias" in name:
        raise Slip(f"{name} decays: a bias has one axis, too.")
    raise Slip(
        f"{name} of shape {shape} decays. Not each norm has 'norm' in its name, and not each is an "
        "nn.LayerNorm: look at the number of axes."
    )


@exercise("Exercise 4 (which convention has this checkpoint?)", "change nothing in `net`")
def which_convention(student) -> None:
    """student(net, x, y) -> "plain", "offset" or "unclear", where no mean of the gains can tell.

    [EQ-RMS]
    """
    x, y = _pictures()
    early = training.transformer(layers.RMSNorm, depth=1, width=8, heads=2).double()
    first = call(student, net=early, x=x[:20], y=y[:20])
    if first is Ellipsis:
        raise NotImplementedError
    if first not in CONVENTIONS:
        raise Slip(f"the result is {describe(first)}, expected 'plain', 'offset' or 'unclear'.")
    with every_case() as cases:
        for (net, convention), slips in zip(_checkpoints(), _wrong_readings(), strict=True):
            got = _reading(student, net, x, y)
            if got == "unclear":
                raise Slip(CAUTIOUS)
            cases.expect(got, convention, slips, "the convention")
    if _reading(student, _trained(0), *_misleading_first(x, y)) != "plain":
        raise Slip(FEW_PICTURES)
    got = _reading(student, _hardly_trained(), *_seen())
    if got != "unclear":
        raise Slip(BY_A_LITTLE.format(got))


def _reading(student, net: nn.Module, x: Tensor, y: Tensor) -> str:
    """What the student says of this net; Slip if the net was changed."""
    before = net.state_dict()
    handed = copy.deepcopy(net)
    got = student(handed, x, y)
    after = handed.state_dict()
    if any(not torch.equal(before[name], after[name]) for name in before):
        raise Slip("the net was changed: read it both ways on copies.")
    return got


def gains_of(net: nn.Module) -> list[Tensor]:
    norms = [part for part in net.modules() if isinstance(part, layers.RMSNorm)]
    return [norm.weight.detach() for norm in norms if norm.weight is not None]


@functools.cache
def _pictures() -> tuple[Tensor, Tensor]:
    data = training.digits()
    return data.validation_x[:200].double(), data.validation_y[:200]


def _seen() -> tuple[Tensor, Tensor]:
    """The pictures that a net was trained with."""
    data = training.digits()
    return data.train_x.double(), data.train_y


def _misleading_first(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same pictures, those first and last that speak for offsets in a net with plain gains."""
    net = _trained(0)
    preference = _losses(net, 1.0, x, y) - _losses(net, 0.0, x, y)
    order = preference.argsort()
    order = torch.cat([order[::2], order[1::2].flip(0)])
    return x[order], y[order]


@functools.cache
def _hardly_trained() -> nn.Sequential:
    """An MLP with plain gains; read as offsets it has a smaller loss, by a tenth (lesson's end)."""
    net = training.residual_mlp(layers.RMSNorm, depth=4, width=32, seed=4).double()
    training.train(net, training.digits(), steps=60, lr=3e-3, optimizer="adam", seed=4)
    return net


@functools.cache
def _trained(seed: int) -> nn.Sequential:
    net = training.transformer(layers.RMSNorm, depth=2, width=32, seed=seed).double()
    training.train(net, training.digits(), steps=60, lr=3e-3, optimizer="adam", seed=seed)
    return net


@torch.no_grad()
def moved_to_readers(net: nn.Sequential, factors: list) -> nn.Sequential:
    """The same function: each norm's gain times a factor, what reads it divided by that."""
    net = copy.deepcopy(net)
    parts: list = list(net)
    norms = [(block.norm, _reader(block.branch)) for block in parts[3:-3]]
    norms.append((parts[-3], parts[-1]))
    for (norm, reader), factor in zip(norms, factors, strict=True):
        norm.weight *= factor
        reader.weight /= factor
    return net


def _reader(branch) -> nn.Linear:
    return branch.qkv if isinstance(branch, training.Attention) else branch[0]


@torch.no_grad()
def stored_as(net: nn.Module, convention: str) -> nn.Module:
    """A copy whose norms hold the numbers that a file of this convention would."""
    net = copy.deepcopy(net)
    if convention == "offset":
        for gain in gains_of(net):
            gain -= 1
    return net


@functools.cache
def _checkpoints() -> list[tuple[nn.Module, str]]:
    net = _trained(0)
    gains = gains_of(net)
    ones = [1 / gain for gain in gains]  # folded: each gain has gone into its reader
    cases: list[tuple[list, str]] = [
        ([1.0] * 5, "plain"),
        ([1.0] * 5, "offset"),
        ([0.05] * 5, "plain"),  # decayed
        ([1.9] * 5, "offset"),  # grown: stored numbers near 1
        (ones, "plain"),
        (ones, "offset"),
        ([1.0] * 4 + [9.7], "offset"),  # one large last norm, as in mold #1074
        ([0.05, 1.0, 1.0, 1.0, 1.0], "plain"),
        ([1.0, 1.0, 1.0, 1.0, 0.05], "plain"),
        ([-1.0] * 5, "plain"),  # a sign is in the readers as well
    ]
    return [(stored_as(moved_to_readers(net, f), kind), kind) for f, kind in cases]


@functools.cache
def _wrong_readings() -> list[dict[str, str]]:
    """For each checkpoint: what a slip says of it."""
    x, y = _pictures()
    return [
        {message: slip(net, x, y) for message, slip in CONVENTION_SLIPS.items()}
        for net, _ in _checkpoints()
    ]


def _mean(net: nn.Module) -> float:
    return torch.cat(gains_of(net)).mean().item()


@torch.no_grad()
def _losses(net: nn.Module, added: float, x: Tensor, y: Tensor) -> Tensor:
    """One loss a picture."""
    net = copy.deepcopy(net)
    for gain in gains_of(net):
        gain += added
    return F.cross_entropy(net(x), y, reduction="none")


def _loss(net: nn.Module, added: float, x: Tensor, y: Tensor) -> float:
    return _losses(net, added, x, y).mean().item()


def _name(is_offset) -> str:
    return "offset" if is_offset else "plain"


CAUTIOUS = "'unclear' is too cautious where one reading has 1.6 times the loss of the other."
FEW_PICTURES = "a few of the pictures mislead: read them all."
BY_A_LITTLE = (
    "{!r} for a net that was trained for a short time. Its wrong reading has the smaller loss, by "
    "a tenth, and the right one names 12 digits of 1000 more: ask for a clear difference, or say "
    "'unclear'."
)
NEAR = "the mean of the gains does not tell: decayed gains are near 0 and plain, grown offsets "
NEAR += "are near 1. Read the net both ways, and compare the losses."
CONVENTION_SLIPS = {
    NEAR: lambda net, x, y: _name(abs(_mean(net)) < 0.5),
    "the mean is not below one half only for offsets: read the net both ways.": (
        lambda net, x, y: _name(_mean(net) < 0.5)
    ),
    "a single norm does not tell: its gain may be decayed, or grown. Read the net both ways.": (
        lambda net, x, y: _name(abs(gains_of(net)[0].mean()) < 0.5)
    ),
    "the last norm does not tell: its gain grows more than the others. Read the net both ways.": (
        lambda net, x, y: _name(abs(gains_of(net)[-1].mean()) < 0.5)
    ),
    "a median does not tell, either: decayed gains are near 0. Read the net both ways.": (
        lambda net, x, y: _name(abs(torch.cat(gains_of(net)).median()) < 0.5)
    ),
    "negative numbers do not tell: offsets may all be positive, and a gain may be negative.": (
        lambda net, x, y: _name((torch.cat(gains_of(net)) < 0).any())
    ),
    "the names have changed places: the smaller loss belongs to the right reading.": (
        lambda net, x, y: _name(_loss(net, 0.0, x, y) < _loss(net, 1.0, x, y))
    ),
    "an offset is read by adding 1 to what is stored; you take 1 away.": (
        lambda net, x, y: _name(_loss(net, -1.0, x, y) < _loss(net, 0.0, x, y))
    ),
    "always 'plain': half of the checkpoints here store offsets.": lambda net, x, y: "plain",
    "always 'offset': half of the checkpoints here store gains.": lambda net, x, y: "offset",
}
