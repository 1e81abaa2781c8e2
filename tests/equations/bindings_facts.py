"""Bindings of identities, bounds and measures."""

import functools
import math
import operator

import torch
import torch.nn.functional as F

from normcourse import measures
from normlib import functional, gradients
from tests.equations.bindings import EPS, D, bind, on_arrays

RMS = functools.partial(functional.rms_norm, normalized_shape=(D,))


def moments(x):
    return {
        "q": x.square().mean(),
        "mu": x.mean(),
        "sigma": x.std(correction=0),
        "D": D,
        "varepsilon": EPS,
    }


@bind("EQ-LN-CONSTRAINTS")
def layer_norm_constraints(draw):
    x = draw(D)
    return {"hatx": functional.layer_norm(x, (D,), eps=EPS), **moments(x)}


@bind("EQ-LN-INVARIANCE")
def layer_norm_invariance(draw):
    norm = on_arrays(lambda v: functional.layer_norm(v, (D,), eps=0.0))
    case = {"x": draw(D), "k": 0.8, "LN": norm, "sign": lambda a: (a > 0) - (a < 0)}
    return [case | {"a": a} for a in (2.5, -0.3)]


@bind("EQ-RMS-LN")
def rms_of_centred(draw):
    x, w = draw(D), draw(D)
    norm = on_arrays(lambda v: functional.layer_norm(v, (D,), w, eps=EPS))
    return {
        "x": x,
        "LN": norm,
        "RMSNorm": on_arrays(lambda v: RMS(v, weight=w, eps=EPS)),
        **moments(x),
    }


@bind("EQ-RMS-MOMENTS")
def rms_moments(draw):
    x = draw(D)
    return {"x": x, **moments(x)}


@bind("EQ-RMS-OUTPUT")
def rms_output(draw):
    x = draw(D)
    return {"hatx": RMS(x, eps=EPS), **moments(x)}


@bind("EQ-RMS-VAR")
def rms_variance(draw):
    x = draw(D)
    hatx = RMS(x, eps=EPS)
    return {"hatx": hatx, "hatmu": hatx.mean(), "r": (x[0] / hatx[0]).item(), **moments(x)}


@bind("EQ-RMS-SPECTRUM")
def rms_spectrum(draw):
    x = draw(D)
    jacobian = gradients.rms_norm_jacobian(x, (D,), eps=EPS)
    spectrum = {
        "lambda_max": measures.spectral_norm(jacobian),
        "lambda_min": torch.linalg.eigvalsh(jacobian)[0],
    }
    return spectrum | {"r": (x[0] / RMS(x, eps=EPS)[0]).item(), "D": D, "varepsilon": EPS}


@bind("EQ-RMS-LIPSCHITZ")
def rms_lipschitz(draw):
    everywhere = torch.cat([draw(50, D), torch.zeros(1, D, dtype=torch.float64)])
    sphere = (
        0.7 * F.normalize(draw(1, D)) * torch.tensor([[1.0], [1.5], [4.0]], dtype=torch.float64)
    )
    inside = measures.spectral_norm(gradients.rms_norm_jacobian(everywhere, (D,), eps=EPS)).max()
    outside = measures.spectral_norm(gradients.rms_norm_jacobian(sphere, (D,), eps=0.0)).max()
    return {"ell_eps": inside, "ell_out": outside, "R": 0.7, "D": D, "varepsilon": EPS}


@bind("EQ-QK-NORM")
def qk_norm(draw):
    def case(q, k, a, b):
        return {"hatq": RMS(q, eps=0.0), "hatk": RMS(k, eps=0.0), "a": a, "b": b, "D": D}

    signs, ones = torch.tensor([1.0, -1.0, 1.0, 1.0]).double(), torch.ones(D).double()
    return [*(case(*draw(4, D)) for _ in range(5)), case(signs, signs, -2 * ones, 0.7 * ones)]


@bind("EQ-RMS-FOLD")
def rms_fold(draw):
    w, b, u = draw(D, 3), draw(D), draw(3)
    centred = {"tildeW": w - w.mean(0), "tildeb": b - b.mean()}
    return {"h": F.linear(u, w, b), "W": w, "b": b, "u": u, "D": D, "K": 3, **centred}


class Counted:
    """A number that counts the operations it takes part in."""

    operations = 0

    def _count(self, *_):
        Counted.operations += 1
        return Counted()

    __add__ = __sub__ = __mul__ = __truediv__ = rsqrt = _count


def mean(values):
    return functools.reduce(operator.add, values) / len(values)


def rms_row(x, weight, eps):
    rstd = (mean([v * v for v in x]) + eps).rsqrt()
    return [w * (v * rstd) for v, w in zip(x, weight, strict=True)]


def layer_norm_row(x, weight, bias, eps):
    mu = mean(x)
    return [v + b for v, b in zip(rms_row([v - mu for v in x], weight, eps), bias, strict=True)]


def count(function, *rows):
    Counted.operations = 0
    function(*([Counted() for _ in range(D)] for _ in range(rows[0])), Counted())
    return Counted.operations


@bind("EQ-FLOPS")
def flops(draw):
    return {"n_LN": count(layer_norm_row, 3), "n_RMS": count(rms_row, 2), "D": D}


@bind("EQ-NORM-EXPANSION")
def norm_expansion(draw):
    x = draw(D)
    step = 1e-5 * (x + draw(D))  # along x and across
    rest = (x + step).norm() - x.norm() - x @ step / x.norm()
    return {"x": x, "Delta": step, "e": rest, "D": D}


@bind("EQ-UNIT-EXPANSION")
def unit_expansion(draw):
    x, step = draw(D), 1e-5 * draw(D)
    return {"x": x, "Delta": step, "u": F.normalize(x, dim=0), "D": D}


@bind("EQ-BEST-STEP")
def best_step(draw):
    """Where autograd's derivative of the error changes its sign."""

    def rises(h, A, B, p):
        leaf = torch.tensor(h, dtype=torch.float64, requires_grad=True)
        (A * leaf**p + B / leaf).backward()
        return leaf.grad > 0

    def case(p):
        A, B = draw(2).abs().tolist()
        low, high = 1e-6, 1e6
        for _ in range(80):
            middle = (low * high) ** 0.5
            low, high = (low, middle) if rises(middle, A, B, p) else (middle, high)
        return {"h_best": low, "A": A, "B": B, "m": p}

    return [case(p) for p in (1, 2, 3)]


@bind("EQ-UNIT-BOUND")
def unit_bound(draw):
    def case(x, z):
        return {"x": x, "z": z, "u": F.normalize(x, dim=0), "t": F.normalize(z, dim=0)}

    x = draw(D)
    return [*(case(draw(D), draw(D)) for _ in range(5)), case(x, x.flip(0))]


@bind("EQ-SIM")
def similarity(draw):
    a, b = draw(D, D), draw(D, D)
    return {"A": a, "B": b, "S": measures.similarity(a, b), "D": D}


@bind("EQ-SIM-DIAG")
def diag_similarity(draw):
    a, b = draw(D, D), draw(D, D)
    return {"A": a, "B": b, "S_diag": F.cosine_similarity(a.diag(), b.diag(), dim=0), "D": D}


@bind("EQ-SIM-TIE")
def tie_of_similarities(draw):
    a, b = draw(D, D), torch.diag(draw(D))
    both = {
        "S": measures.similarity(a, b),
        "S_diag": F.cosine_similarity(a.diag(), b.diag(), dim=0),
    }
    return both | {"e": measures.off_diagonal_share(a)}


@bind("EQ-SPECTRAL-NORM")
def spectral_norm(draw):
    jacobian = draw(D, D)
    case = {"J": lambda v: jacobian.numpy() @ v, "c": measures.spectral_norm(jacobian)}
    worst = torch.linalg.svd(jacobian).Vh[0]
    return [case | {"v": v} for v in (draw(D), draw(D), 3 * worst)]


@bind("EQ-LIPSCHITZ-SAMPLE")
def lipschitz_sample(draw):
    x, z = draw(3, D), draw(3, D)
    function = functools.partial(RMS, eps=EPS)
    return {
        "x": x,
        "z": z,
        "f": on_arrays(function),
        "ell": (measures.lipschitz_estimate(function, x, z)),
    }


def descend(curvature, start, rate, lowest=0.7, steps=3):
    """Values of a quadratic along gradient descent, from index 0."""
    theta, values = start, {}
    for k in range(steps + 1):
        values[k] = lowest + 0.5 * (curvature * theta**2).sum()
        theta = theta - rate * curvature * theta
    return {
        "f": values,
        "f_min": lowest,
        "eta": rate,
        "m": curvature[0].item(),
        "M": (curvature[-1].item()),
    }


@bind("EQ-GD-RATE")
def gd_rate(draw):
    curvature = torch.tensor([0.5, 1.0, 1.7], dtype=torch.float64)
    slowest = torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64)
    return [
        *(descend(curvature, draw(3), rate) for rate in (0.1, 0.5, 0.9)),
        descend(curvature, slowest, 2 / 2.2),
    ]


# Weight decay


@bind("EQ-SCALE-FREE")
def scale_free(draw):
    w, inputs, c = draw(12), draw(5, 3), 2.5

    def gradient(weights):
        leaf = weights.clone().requires_grad_()
        hidden = RMS(inputs @ leaf.view(D, 3).T, eps=0.0)
        return torch.autograd.grad((hidden**3).sum(), leaf)[0]

    return {"w": w, "g": gradient(w), "tildeg": gradient(c * w), "c": c, "n": 12}


def balanced(growth, decay):
    """The length at which what a step adds to its square is what decay takes, by halving."""
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if growth(middle) > decay(middle) else (low, middle)
    return middle


@bind("EQ-EQUILIBRIUM")
def equilibrium(draw):
    eta, decay, a = 3e-6, 2e-7, 1.7

    def taken(length):  # of the squared length, by (1 - eta decay)^2
        return (2 * eta * decay - (eta * decay) ** 2) * length**2

    length = balanced(lambda length: (eta * a / length) ** 2, taken)
    angle = math.atan2(eta * a / length, length)
    return {"ell": length, "eta": eta, "a": a, "lambda": decay, "varphi": angle}


@bind("EQ-EQUILIBRIUM-ADAM")
def equilibrium_adam(draw):
    eta, decay, a, n = 3e-6, 2e-7, 1.7, 12

    def taken(length, size):  # size: what one number of the decay is divided by
        return (2 * eta * decay / size - (eta * decay / size) ** 2) * length**2

    lengths = {
        "ell_AdamW": balanced(lambda _: eta**2 * n, lambda ell: taken(ell, 1.0)),
        "ell_Adam": balanced(lambda _: eta**2 * n, lambda ell: taken(ell, a / (ell * n**0.5))),
    }
    return lengths | {"eta": eta, "a": a, "lambda": decay, "n": n}
