"""The checks of lesson 02 name what is wrong, and accept unusual right answers."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse.checks import layer_norm as check
from normlib import functional, gradients
from tests.course.solutions import every_slip, load, wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


# Exercise 1


def of(function):
    """The class of layers whose forward pass is function(x, weight, bias, eps)."""

    class LayerNorm(nn.Module):
        def __init__(self, features, eps=1e-5):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(features))
            self.bias = nn.Parameter(torch.zeros(features))
            self.eps = eps

        def forward(self, x):
            return function(x, self.weight, self.bias, self.eps)

    return LayerNorm


def root(var, eps):
    return torch.sqrt(var + eps)


def layer(axes=lambda x: (-1,), correction=0, scale=root, keepdim=True):
    """A layer norm with one thing to get wrong at a time."""

    def student(x, weight, bias, eps):
        mean = x.mean(axes(x), keepdim=keepdim)
        var = x.var(axes(x), keepdim=keepdim, correction=correction)
        return (x - mean) / scale(var, eps) * weight + bias

    return of(student)


def normalized(x, eps):
    centered = x - x.mean(-1, keepdim=True)
    return centered / root(centered.square().mean(-1, keepdim=True), eps)


def affine(combine):
    """A layer norm that uses gain and bias in another way."""
    return of(lambda x, weight, bias, eps: combine(normalized(x, eps), weight, bias))


def one_pass(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    var = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) / root(var, eps) * weight + bias


def in_place(x, weight, bias, eps):
    x -= x.mean(-1, keepdim=True)
    return x / root(x.square().mean(-1, keepdim=True), eps) * weight + bias


def divided_in_place(x, weight, bias, eps):
    around = x - x.mean(-1, keepdim=True)
    around /= root(around.square().mean(-1, keepdim=True), eps)
    return around * weight + bias


def rms(x, weight, bias, eps):
    return x / root(x.square().mean(-1, keepdim=True), eps) * weight + bias


def detached(mean=False, var=False):
    def student(x, weight, bias, eps):
        level = x.mean(-1, keepdim=True)
        spread = x.var(-1, keepdim=True, correction=0)
        level = level.detach() if mean else level
        spread = spread.detach() if var else spread
        return (x - level) / root(spread, eps) * weight + bias

    return of(student)


@of
@torch.no_grad()
def no_grad(x, weight, bias, eps):
    return normalized(x, eps) * weight + bias


def length_one(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    return centered / root(centered.square().sum(-1, keepdim=True), eps) * weight + bias


def absolute(x, weight, bias, eps):
    around = x - x.mean(-1, keepdim=True)
    return around / (around.abs().mean(-1, keepdim=True) + eps) * weight + bias


def only_divided(x, weight, bias, eps):
    return x / root(x.var(-1, keepdim=True, correction=0), eps) * weight + bias


def squares_of_x(x, weight, bias, eps):
    around = x - x.mean(-1, keepdim=True)
    return around / root(x.square().mean(-1, keepdim=True), eps) * weight + bias


def by_rms_norm(x, weight, bias, eps):
    around = x - x.mean(-1, keepdim=True)
    return F.rms_norm(around, x.shape[-1:], weight, eps) + bias


def by_normlib(x, weight, bias, eps):
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


class Unlearned(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = torch.ones(features), torch.zeros(features), eps

    def forward(self, x):
        return normalized(x, self.eps) * self.weight + self.bias


class Renamed(Unlearned):
    def __init__(self, features, eps=1e-5):
        nn.Module.__init__(self)
        self.gain = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return normalized(x, self.eps) * self.gain + self.shift


class OneGain(Renamed):
    def __init__(self, features, eps=1e-5):
        nn.Module.__init__(self)
        self.weight = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))
        self.eps = eps

    def forward(self, x):
        return normalized(x, self.eps) * self.weight + self.bias


class Zero(layer()):
    def __init__(self, features, eps=1e-5):
        super().__init__(features, eps)
        nn.init.zeros_(self.weight)


class Stores(layer()):
    def __init__(self, features, eps=1e-5):
        super().__init__(features, eps)
        self.register_buffer("running_mean", torch.zeros(features))


class OtherDefault(layer()):
    def __init__(self, features, eps=1e-3):
        super().__init__(features, eps)


class OnlyInTraining(layer()):
    def forward(self, x):
        return super().forward(x) if self.training else x


LAYER_NORM = {
    "unbiased variance": (layer(correction=1), "biased one"),
    "std plus eps": (layer(scale=lambda var, eps: var.sqrt() + eps), "inside the root"),
    "torch's std plus eps": (
        layer(correction=1, scale=lambda var, eps: var.sqrt() + eps),
        "torch's std()",
    ),
    "torch's std, no eps": (
        layer(correction=1, scale=lambda var, eps: var.sqrt()),
        "that is torch's std(): divide",
    ),
    "divided by the variance": (layer(scale=lambda var, eps: var + eps), "square root is missing"),
    "no eps": (layer(scale=lambda var, eps: var.sqrt()), "eps is not used"),
    "own eps": (layer(scale=lambda var, eps: root(var, 1e-5)), "eps is an argument"),
    "a smallest eps": (
        layer(scale=lambda var, eps: root(var, max(eps, 1e-3))),
        "without a smallest value",
    ),
    "sum of squares": (of(length_one), "that has length 1"),
    "centered only": (layer(scale=lambda var, eps: 1.0), "not divided"),
    "RMS norm": (of(rms), "that is RMSNorm"),
    "over the samples": (
        layer(axes=lambda x: tuple(range(x.dim() - 1)) or (0,)),
        "all but the last were reduced, as BatchNorm does",
    ),
    "over the first axis": (layer(axes=lambda x: (0,)), "the first one was reduced"),
    "over axis 1": (layer(axes=lambda x: (1,)), "1 is the last axis of a table only"),
    "over the last two": (
        layer(axes=lambda x: (-2, -1) if x.dim() > 1 else (-1,)),
        "the last two were reduced",
    ),
    "all but the first axis": (
        layer(axes=lambda x: tuple(range(1, x.dim())) or (0,)),
        "a moment sees the others",
    ),
    "over everything": (layer(axes=lambda x: tuple(range(x.dim()))), "for the whole tensor"),
    "mean absolute deviation": (of(absolute), "mean absolute deviation"),
    "only divided": (of(only_divided), "has to be centred as well"),
    "squares of x": (of(squares_of_x), "square the deviations, not x"),
    "one plus the gain": (affine(lambda xhat, w, b: xhat * (1 + w) + b), "1 plus the gain"),
    "no keepdim": (layer(keepdim=False), "two shapes do not fit: keepdim=True is missing"),
    "divided in place": (of(divided_in_place), "the gradient needs a tensor that your code has"),
    "weight and bias swapped": (affine(lambda xhat, w, b: xhat * b + w), "changed places"),
    "no bias": (affine(lambda xhat, w, b: xhat * w), "the bias is missing"),
    "no gain": (affine(lambda xhat, w, b: xhat + b), "gain (weight) is missing"),
    "no affine": (affine(lambda xhat, w, b: xhat), "gain and bias are missing"),
    "gain around the bias": (affine(lambda xhat, w, b: (xhat + b) * w), "multiplied by the gain"),
    "affine first": (
        of(lambda x, w, b, eps: normalized(x * w + b, eps)),
        "after the normalization",
    ),
    "scalar gain": (affine(lambda xhat, w, b: xhat * w.mean() + b), "gain is one number"),
    "one-pass variance": (of(one_pass), "lost at mean 10,000"),
    "changes x": (of(in_place), "x was changed in place"),
    "torch's layer": (nn.LayerNorm, "without layer_norm"),
    "another finished norm": (of(by_rms_norm), "without rms_norm"),
    "normlib's function": (of(by_normlib), "without layer_norm"),
    "float32 inside": (
        of(lambda x, w, b, eps: (normalized(x.float(), eps) * w + b).to(x.dtype)),
        "is off by up to",
    ),
    "statistics cut off": (detached(mean=True, var=True), "mean and variance are cut off"),
    "mean cut off": (detached(mean=True), "the mean is cut off"),
    "variance cut off": (detached(var=True), "the variance is cut off"),
    "no gradient": (no_grad, "no gradient comes back"),
    "no parameters": (Unlearned, "has the parameters none, expected"),
    "other names": (Renamed, "has the parameters {'gain': (7,), 'shift': (7,)}, expected"),
    "one gain": (OneGain, "has the parameters {'weight': (1,), 'bias': (1,)}, expected"),
    "a gain of zeros": (Zero, "weight is all ones"),
    "a buffer": (Stores, "the layer stores running_mean"),
    "another default eps": (OtherDefault, "the default eps is 1e-5"),
    "nothing in evaluation": (OnlyInTraining, "after eval()"),
    "a layer, no class": (layer()(7), "pass the class"),
    "a function": (lambda features, eps=1e-5: features, "expected a layer: write class LayerNorm"),
}


# Exercise 2


def the_change(change):
    """The table x W^T before and after a change, in numbers of this test."""
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(6, 5, generator=generator)
    weights = torch.randn(7, 5, generator=generator)
    factors = 0.5 + torch.rand(7, 1, generator=generator)
    vector = torch.randn(5, generator=generator)
    bias = torch.randn(7, generator=generator)
    scaled = x.clone()
    scaled[3] = 5 * scaled[3]
    after = {
        "all weights times 5": x @ (5 * weights).T,
        "all weights times -5": x @ (-5 * weights).T,
        "the weights of each unit times a positive factor of its own": x @ (factors * weights).T,
        "one vector added to the weights of every unit": x @ (weights + vector).T,
        "a bias: a number of its own added to each unit": x @ weights.T + bias,
        "one of the samples times 5": scaled @ weights.T,
        "one vector added to all samples": (x + vector) @ weights.T,
    }
    return x @ weights.T, after[change]


def standard(table, axis):
    return (table - table.mean(axis, keepdim=True)) / table.std(axis, keepdim=True, correction=0)


@pytest.mark.parametrize("change", check.CHANGES)
def test_what_each_norm_sees_is_measured(change):
    before, after = the_change(change)
    blind = [
        name
        for name, axis in (("LN", 1), ("BN", 0))
        if torch.allclose(standard(before, axis), standard(after, axis))
    ]
    assert check.CHANGES[change][0] == (" and ".join(blind) or "neither")


SEEN = {change: answer for change, (answer, _) in check.CHANGES.items()}
OTHERS = {
    "changed places": (
        {change: {"LN": "BN", "BN": "LN"}.get(answer, answer) for change, answer in SEEN.items()},
        "LN and BN have changed places",
    ),
    "the sign forgotten": (
        SEEN | {"all weights times -5": "both"},
        "a negative factor leaves its sign",
    ),
    "all weights, one norm": (SEEN | {"all weights times 5": "LN"}, "each row and each column"),
    "a bias for LayerNorm": (
        SEEN | {"a bias: a number of its own added to each unit": "neither"},
        "6 of 7 are right",
    ),
    "a vector on the weights": (
        SEEN | {"one vector added to the weights of every unit": "BN"},
        "adds one number to a whole row",
    ),
    "a factor for each unit": (
        SEEN | {"the weights of each unit times a positive factor of its own": "LN and BN"},
        "multiplies a whole column",
    ),
    "one sample": (SEEN | {"one of the samples times 5": "BN"}, "multiplies a whole row"),
    "all samples": (
        SEEN | {"one vector added to all samples": "LN"},
        "adds one number to a whole column",
    ),
    "one line left": (SEEN | {"one of the samples times 5": None}, "has no answer yet"),
    "other words": (SEEN | {"all weights times 5": "yes"}, 'write "LN", "BN"'),
    "a list": (list(SEEN.values()), "a dict with 7 lines"),
}


@every_slip({check.what_each_sees: OTHERS})
def test_a_change_that_is_judged_wrongly_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


def test_both_norms_are_written_in_any_way():
    for both in ("both", " ln  and bn ", "LN, BN", "BN & LN", "BN/LN", "LayerNorm + BatchNorm"):
        answer = SEEN | {"all weights times 5": both, "all weights times -5": "none"}
        assert check.what_each_sees(answer).startswith("[ok]")
    assert check.what_each_sees(dict.fromkeys(SEEN)).startswith("[ ]")


# Exercise 3


def columns(dy, x, eps):
    """Lesson 01's gradient, as the lesson shows it."""
    xhat = (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + eps)
    s = torch.sqrt(x.var(0, correction=0) + eps)
    return (dy - dy.mean(0) - xhat * (dy * xhat).mean(0)) / s


def transposed(g, x, eps):
    return columns(g.T, x.T, eps).T


def by_torchs_kernel(dy, x, w, eps):
    mean, rstd = x.mean(-1, keepdim=True), 1 / size(x, eps)
    dx, *_ = torch.ops.aten.native_layer_norm_backward(
        dy, x, x.shape[-1:], mean, rstd, w, None, [True, False, False]
    )
    return dx


def by_autograd(dy, x, w, eps):
    leaf = x.clone().requires_grad_()
    around = leaf - leaf.mean(-1, keepdim=True)
    y = w * around / torch.sqrt(around.square().mean(-1, keepdim=True) + eps)
    return torch.autograd.grad(y, leaf, dy)[0]


def size(x, eps, correction=0):
    return torch.sqrt(x.var(-1, keepdim=True, correction=correction) + eps)


def along(g, x, eps):
    xhat = (x - x.mean(-1, keepdim=True)) / size(x, eps)
    return xhat * (g * xhat).mean(-1, keepdim=True)


GRADIENT = {
    "no gain": (lambda dy, x, w, eps: transposed(dy, x, eps), "the gain is missing"),
    "gain last": (lambda dy, x, w, eps: w * transposed(dy, x, eps), "cannot leave the bracket"),
    "gain twice": (lambda dy, x, w, eps: w * transposed(w * dy, x, eps), "used twice"),
    "gain squared": (lambda dy, x, w, eps: transposed(w * w * dy, x, eps), "the gain is squared"),
    "gain on both": (
        lambda dy, x, w, eps: transposed(w * dy, w * x, eps),
        "yours multiplies x, too",
    ),
    "gain on the row": (lambda dy, x, w, eps: transposed(dy, w * x, eps), "not the row"),
    "gain after the transpose": (
        lambda dy, x, w, eps: columns(w * dy.T, x.T, eps).T,
        "two shapes do not fit: the gain comes before the transpose, (w * dy).T. torch says",
    ),
    "x not transposed": (
        lambda dy, x, w, eps: columns((w * dy).T, x, eps).T,
        "two shapes do not fit: x is not transposed. torch says",
    ),
    "x and the result not transposed": (
        lambda dy, x, w, eps: columns((w * dy).T, x, eps),
        "two shapes do not fit: x is not transposed. The result is not transposed back. torch says",
    ),
    "dy not transposed": (
        lambda dy, x, w, eps: columns(w * dy, x.T, eps).T,
        "two shapes do not fit: dy is not transposed. torch says",
    ),
    "x not transposed, gain after the transpose": (
        lambda dy, x, w, eps: columns(w * dy.T, x, eps).T,
        "the gain comes before the transpose, (w * dy).T. x is not transposed. torch says",
    ),
    "x not transposed, no gain": (
        lambda dy, x, w, eps: columns(dy.T, x, eps).T,
        "the gain is missing. x is not transposed. torch says",
    ),
    "dy not transposed, no gain": (
        lambda dy, x, w, eps: columns(dy, x.T, eps).T,
        "the gain is missing, and dy is not transposed. torch says",
    ),
    "shapes that no transpose explains": (
        lambda dy, x, w, eps: columns(2 * (w * dy).T, x, eps).T,
        "two shapes do not fit: transpose both, w * dy and x",
    ),
    "table first": (lambda dy, x, w, eps: transposed(x, w * dy, eps), "the table comes second"),
    "gain below": (lambda dy, x, w, eps: transposed(dy / w, x, eps), "is divided by"),
    "not transposed": (
        lambda dy, x, w, eps: columns(w * dy, x, eps),
        "table is not transposed: these",
    ),
    "not transposed, no gain": (
        lambda dy, x, w, eps: columns(dy, x, eps),
        "and the gain is missing",
    ),
    "not transposed back": (
        lambda dy, x, w, eps: columns((w * dy).T, x.T, eps),
        "has shape (5, 3)",
    ),
    "mean stays": (
        lambda dy, x, w, eps: (w * dy - along(w * dy, x, eps)) / size(x, eps),
        "the mean of g",
    ),
    "only centered": (
        lambda dy, x, w, eps: (w * dy - (w * dy).mean(-1, keepdim=True)) / size(x, eps),
        "the path through the variance is missing",
    ),
    "added": (
        lambda dy, x, w, eps: transposed(w * dy, x, eps) + 2 * along(w * dy, x, eps) / size(x, eps),
        "subtracted, not added",
    ),
    "not divided": (
        lambda dy, x, w, eps: transposed(w * dy, x, eps) * size(x, eps),
        "1/s is missing",
    ),
    "by the variance": (
        lambda dy, x, w, eps: transposed(w * dy, x, eps) / size(x, eps),
        "not by the variance",
    ),
    "no eps": (lambda dy, x, w, eps: transposed(w * dy, x, 0.0), "eps is missing"),
    "a smallest eps": (
        lambda dy, x, w, eps: transposed(w * dy, x, max(eps, 1e-2)),
        "without a smallest value",
    ),
    "no gain below 0": (lambda dy, x, w, eps: transposed(abs(w) * dy, x, eps), "may be negative"),
    "own eps": (lambda dy, x, w, eps: transposed(w * dy, x, 1e-5), "fixed at 1e-5"),
    "sums": (
        lambda dy, x, w, eps: (
            (w * dy - x.shape[-1] * (w * dy - transposed(w * dy, x, eps) * size(x, eps)))
            / size(x, eps)
        ),
        "sums where means belong",
    ),
    "changed places": (lambda dy, x, w, eps: transposed(w * x, dy, eps), "changed places"),
    "sign": (lambda dy, x, w, eps: -transposed(w * dy, x, eps), "the sign"),
    "D - 1": (
        lambda dy, x, w, eps: transposed(w * dy, x, eps) * size(x, eps) / size(x, eps, 1),
        "not by D - 1",
    ),
    "autograd": (by_autograd, "without autograd"),
    "torch's kernel": (by_torchs_kernel, "without backward"),
    "normlib's gradients": (
        lambda dy, x, w, eps: gradients.layer_norm_backward(dy, x, x.shape[-1:], w, None, eps)[0],
        "without normlib.gradients",
    ),
    "normlib's Jacobian": (
        lambda dy, x, w, eps: torch.einsum(
            "ni,nij->nj", dy, gradients.layer_norm_jacobian(x, x.shape[-1:], w, eps=eps)
        ),
        "without normlib",
    ),
    "the loss": (lambda dy, x, w, eps: (w * dy).sum(), "expected"),
}


test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.layer_norm: LAYER_NORM,
        check.row_gradient: GRADIENT,
    }
)


def by_einsum(x, weight, bias, eps):
    flat = x.reshape(-1, x.shape[-1])
    around = flat - flat.mean(1, keepdim=True)
    var = torch.einsum("nd,nd->n", around, around) / flat.shape[1]
    return (around * torch.rsqrt(var + eps)[:, None]).reshape(x.shape) * weight + bias


def row_by_row(x, weight, bias, eps):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        around = row - row.mean()
        rows.append(around / (around.square().mean() + eps) ** 0.5)
    return torch.addcmul(bias, torch.stack(rows).view(x.shape), weight)


def by_var_mean(x, weight, bias, eps):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) * (var + eps).rsqrt() * weight + bias


def by_length(x, weight, bias, eps):
    around = x - x.mean(-1, keepdim=True)
    scale = torch.linalg.vector_norm(around, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    return around / torch.hypot(scale, torch.tensor(eps).sqrt().to(x)) * weight + bias


class Inherited(nn.LayerNorm):
    """torch's parameters, a forward pass of one's own."""

    def forward(self, x):
        return by_var_mean(x, self.weight, self.bias, self.eps)


RIGHT = {
    "einsum": of(by_einsum),
    "row by row": of(row_by_row),
    "var_mean": of(by_var_mean),
    "length": of(by_length),
    "compiled": of(torch.compile(by_var_mean, backend="eager")),
    "torch's parameters": Inherited,
    "a function that makes one": lambda *features_and_eps: layer()(*features_and_eps),
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_an_unusual_right_layer_is_accepted(answer):
    assert check.layer_norm(answer).startswith("[ok]")


def test_the_solution_loads_what_torchs_layer_saved():
    trained = nn.LayerNorm(7)
    with torch.no_grad():
        trained.weight.mul_(2)
    own = load("02_layer_norm")["LayerNorm"](7)
    own.load_state_dict(trained.state_dict())
    x = torch.arange(21.0).sin().view(3, 7)
    torch.testing.assert_close(own(x), trained(x))


def test_an_unusual_right_gradient_is_accepted():
    def by_matrix(dy, x, w, eps):
        features = x.shape[-1]
        xhat = (x - x.mean(-1, keepdim=True)) / size(x, eps)
        outer = xhat[:, :, None] * xhat[:, None, :]
        bracket = torch.eye(features) - 1 / features - outer / features
        return torch.einsum("nij,nj->ni", bracket, w * dy) / size(x, eps)

    assert check.row_gradient(by_matrix).startswith("[ok]")
    assert check.row_gradient(lambda dy, x, w, eps: transposed(w * dy, x, eps)).startswith("[ok]")
