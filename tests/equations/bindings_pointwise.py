"""Bindings of the equations about element-wise functions.

They say where the functions come from, how steep they are and what they cannot do.
"""

import math

import torch

from normcourse import measures
from normlib import functional, gradients
from tests.equations.bindings import EPS, D, N, bind


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def slope(function, x):
    """dy/dx at x, on the diagonal of a matrix: the equations name it with i twice."""
    return torch.diag(measures.slopes(function, x))


def rms_row(draw):
    """A row, its RMSNorm and the Jacobian of it; rho."""
    x = draw(D)
    jacobian = gradients.rms_norm_jacobian(x, (D,), eps=0.0)
    y = functional.rms_norm(x, (D,), eps=0.0)
    return {"x": x, "y": y, "dy_dx": jacobian, "rho": x.square().mean().sqrt(), "D": D}


@bind("EQ-DYT-ODE")
def dyt_ode(draw):
    x, alpha = draw(D), number(0.7)
    y, jacobian = (f(x, alpha, scale=D**0.5) for f in (functional.dyt, gradients.dyt_jacobian))
    return [rms_row(draw), {"x": x, "y": y, "dy_dx": jacobian, "rho": 1 / 0.7, "D": D}]


@bind("EQ-DYT-SOLUTION")
def dyt_solution(draw):
    x = draw(D)
    return {"x": x, "y": functional.dyt(x, number(0.7), scale=D**0.5), "rho": 1 / 0.7, "D": D}


@bind("EQ-DYISRU-ODE")
def dyisru_ode(draw):
    x, c = draw(D), number(0.7)
    curve = {"x": x, "y": functional.dyisru(x, c), "dy_dx": gradients.dyisru_jacobian(x, c), "D": D}
    return [rms_row(draw), curve]


@bind("EQ-BERNOULLI")
def bernoulli(draw):
    x, c = draw(D), number(0.7)

    def u(x):
        return functional.dyisru(x, c).pow(-2)

    def v(x):
        return x.square() * u(x)

    values = {"x": x, "y": functional.dyisru(x, c), "u": u(x), "v": v(x), "c": c, "D": D}
    return values | {"du_dx": slope(u, x), "dv_dx": slope(v, x)}


@bind("EQ-DYISRU-SOLUTION")
def dyisru_solution(draw):
    x = draw(D)
    return {"x": x, "y": functional.dyisru(x, number(0.7)), "c": 0.7, "D": D}


@bind("EQ-DYISRU-EXACT")
def dyisru_exact(draw):
    x = draw(D)
    c = torch.stack([x[torch.arange(D) != i].square().sum() for i in range(D)]) + D * EPS
    values = {"x": x, "c": c, "D": D, "varepsilon": EPS}
    return [
        values | {"y": y} for y in (functional.rms_norm(x, (D,), eps=EPS), functional.dyisru(x, c))
    ]


def bounded(function, bounds, w, bend, **symbols):
    """Three cases: far from both bounds, where the slope is largest, and where the bend is.

    The slope is largest at 0.
    """
    ones = torch.ones_like(w)
    places = [(bend * torch.linspace(-3, 2, D), w), (0 * ones, 2 * ones), (bend * ones, 2 * ones)]
    cases = []
    for x, gain in places:
        first, second = torch.func.grad(function), torch.func.grad(torch.func.grad(function))
        derivatives = (torch.diag(torch.vmap(f)(x.double(), gain)) for f in (first, second))
        both = dict(zip(("dy_dx", "ds_dx"), derivatives, strict=True))
        cases.append(
            both | dict(zip(("ell", "M"), bounds(gain), strict=True)) | {"w": gain, **symbols}
        )
    return cases


@bind("EQ-DYT-BOUNDS")
def dyt_bounds(draw):
    alpha, kappa = -0.7, 2.0
    return bounded(
        lambda x, w: functional.dyt(x, number(alpha), w, scale=kappa),
        lambda w: measures.dyt_bounds(alpha, kappa, w),
        draw(D),
        kappa / alpha * math.atanh(3**-0.5),
        alpha=alpha,
        kappa=kappa,
    )


@bind("EQ-DYISRU-BOUNDS")
def dyisru_bounds(draw):
    c, kappa = 0.7, 2.0
    return bounded(
        lambda x, w: functional.dyisru(x, number(c), w, scale=kappa),
        lambda w: measures.dyisru_bounds(c, kappa, w),
        draw(D),
        math.sqrt(c) / 2,
        c=c,
        kappa=kappa,
    )


@bind("EQ-DERF")
def derf(draw):
    x, w, b = draw(D), draw(D), draw(D)
    alpha, shift = number(0.7), number(0.4)
    y = functional.derf(x, alpha, shift, w, b)
    (slopes, *_) = gradients.derf_backward(torch.ones_like(x), x, alpha, shift, w)
    constants = {"w": w, "b": b, "alpha": 0.7, "s": 0.4, "pi": math.pi, "erf": math.erf}
    return constants | {"x": x, "y": y, "dy_dx": torch.diag(slopes)}


@bind("EQ-DERF-GRAD")
def derf_gradients(draw):
    x, dy, w, b = draw(N, D), draw(N, D), draw(D), draw(D)
    dx, dalpha, ds, dw, db = gradients.derf_backward(dy, x, number(0.7), number(0.4), w, b)
    slopes = 2 / math.sqrt(math.pi) * torch.exp(-(0.7 * x + 0.4).square())
    constants = {"x": x, "w": w, "alpha": 0.7, "s": 0.4, "pi": math.pi, "h": slopes, "N": N, "D": D}
    derivatives = {
        "dL_dx": dx,
        "dL_dalpha": dalpha,
        "dL_ds": ds,
        "dL_dw": dw,
        "dL_db": db,
        "dL_dy": dy,
    }
    return constants | derivatives | {"erf": math.erf}


@bind("EQ-RELATIVE-ERROR")
def relative_error(draw):
    y, t = draw(N, D), draw(N, D)
    return {"y": y, "t": t, "e": measures.relative_error(y, t)}


@bind("EQ-NGPT")
def ngpt_step(draw):
    unit = torch.nn.functional.normalize
    x, f, eta = unit(draw(D), dim=0), draw(D), draw(D).abs()
    g = unit(f, dim=0)
    v = torch.lerp(x, g, eta)
    return {"x": x, "f": f, "g": g, "v": v, "eta": eta, "y": unit(v, dim=0)}


@bind("EQ-OFF-DIAGONAL")
def off_diagonal(draw):
    jacobian = draw(D, D)
    return {"J": jacobian, "e": measures.off_diagonal_share(jacobian), "D": D}


@bind("EQ-OFF-DIAGONAL-RMS")
def off_diagonal_of_rms(draw):
    x = draw(D)
    share = measures.off_diagonal_share(gradients.rms_norm_jacobian(x, (D,), eps=0.0))
    return {"y": functional.rms_norm(x, (D,), eps=0.0), "e": share, "D": D}


@bind("EQ-CONDITIONAL-MEAN")
def conditional_mean(draw):
    x, y = draw(7), draw(7)
    knots, means = measures.conditional_mean(x, y, bins=3)
    member = torch.zeros(3, 7).double()
    # 7 values, cut after 7 // 3 and 14 // 3
    for k, rows in enumerate(x.argsort().split([2, 2, 3])):
        member[k, rows] = 1
    case = {"x": x, "y": y, "a": knots, "m": means, "B": member, "n": member.sum(1), "K": 3, "N": 7}
    return [case | {"t": t} for t in (means, means + 0.5 * draw(3))]
