"""Bindings of the equations that define a norm, a variance or a way to compose layers."""

import itertools
from functools import partial

import torch
import torch.nn.functional as F

from normcourse import training
from normlib import functional
from tests.equations.bindings import EPS, D, bind, by_channel, on_arrays


@bind("EQ-BN")
def batch_norm(draw):
    x, w, b = draw(2, 3, 2, 1), draw(3), draw(3)
    y, hatx = (
        functional.batch_norm(x, None, None, *p, training=True, eps=EPS) for p in ((w, b), ())
    )
    rows = by_channel(x)
    statistics = {
        "mu": rows.mean(0),
        "sigma": rows.std(0, correction=0),
        "m": len(rows),
        "varepsilon": EPS,
    }
    return {"x": rows, "y": by_channel(y), "hatx": by_channel(hatx), "w": w, "b": b, **statistics}


@bind("EQ-BN-RUNNING")
def batch_norm_running(draw):
    x, mean, var = draw(4, 3), draw(3), draw(3).exp()
    old = {"mu_run": mean.clone(), "v_run": var.clone()}
    functional.batch_norm(x, mean, var, training=True, momentum=0.2)
    batch = {"mu": x.mean(0), "sigma": x.std(0, correction=0), "m": 4, "a": 0.2}
    return old | batch | {"new": {"mu_run": mean, "v_run": var}}


@bind("EQ-BN-EVAL")
def batch_norm_eval(draw):
    x, mean, var, w, b = draw(4, 3), draw(3), draw(3).exp(), draw(3), draw(3)
    y = functional.batch_norm(x, mean, var, w, b, training=False, eps=EPS)
    return {"x": x, "y": y, "mu_run": mean, "v_run": var, "w": w, "b": b, "varepsilon": EPS}


@bind("EQ-BN-FOLD")
def batch_norm_fold(draw):
    weight, bias, u = draw(3, 2), draw(3), draw(4, 2)
    mean, var, w, b = draw(3), draw(3).exp(), draw(3), draw(3)
    y = functional.batch_norm(F.linear(u, weight, bias), mean, var, w, b, training=False, eps=EPS)
    folded = {"tildeW": torch.diag(w / (var + EPS).sqrt()) @ weight}
    folded["tildeb"] = functional.batch_norm(bias[None], mean, var, w, b, training=False, eps=EPS)[
        0
    ]
    statistics = {"mu_run": mean, "v_run": var, "s": (var + EPS).sqrt(), "varepsilon": EPS}
    return {"y": y, "u": u, "W": weight, "d": bias, "w": w, "b": b, "K": 2} | folded | statistics


@bind("EQ-BN-NOISE")
def batch_norm_noise(draw):
    population = draw(3)
    batches = torch.stack([torch.stack(batch) for batch in itertools.product(population, repeat=3)])
    statistics = {"mu_B": batches.mean(1), "sigma_B": batches.std(1, correction=0)}
    size = {"sigma": population.std(correction=0).item(), "m": 3}
    return {**statistics, **size, "E": lambda v: v.mean(), "sd": lambda v: v.std()}


@bind("EQ-LN")
def layer_norm(draw):
    x, w, b = draw(D), draw(D), draw(D)
    y, hatx = functional.layer_norm(x, (D,), w, b, EPS), functional.layer_norm(x, (D,), eps=EPS)
    statistics = {"mu": x.mean(), "sigma": x.std(correction=0), "D": D, "varepsilon": EPS}
    return {"x": x, "y": y, "hatx": hatx, "w": w, "b": b, **statistics}


@bind("EQ-GN")
def group_norm(draw):
    x, w, b = draw(2, 6, 2), draw(6), draw(6)
    groups = (2, 2, 3, 2)  # (N, G, K, P)
    y, hatx = functional.group_norm(x, 2, w, b, EPS), functional.group_norm(x, 2, eps=EPS)
    v = x.reshape(groups)
    statistics = {"mu": v.mean((2, 3)), "sigma": v.std((2, 3), correction=0), "varepsilon": EPS}
    arrays = {"x": v, "y": y.reshape(groups), "hatx": hatx.reshape(groups), "K": 3, "P": 2}
    return arrays | statistics | {"w": w.reshape(2, 3), "b": b.reshape(2, 3)}


@bind("EQ-IN")
def instance_norm(draw):
    x, w, b = draw(2, 3, 4), draw(3), draw(3)
    y = functional.instance_norm(x, weight=w, bias=b, eps=EPS)
    hatx = functional.instance_norm(x, eps=EPS)
    statistics = {"mu": x.mean(2), "sigma": x.std(2, correction=0), "P": 4, "varepsilon": EPS}
    return {"x": x, "y": y, "hatx": hatx, "w": w, "b": b, **statistics}


@bind("EQ-WN")
def weight_norm(draw):
    v, g = draw(3, D), draw(3, 1)
    return {"W": functional.weight_norm(v, g), "v": v, "g": g[:, 0], "ell": v.norm(dim=1), "D": D}


@bind("EQ-WS")
def weight_standardization(draw):
    w = draw(3, D)
    statistics = {"mu": w.mean(1), "sigma": w.std(1, correction=0), "D": D, "varepsilon": EPS}
    return {"W": w, "hatW": functional.layer_norm(w, (D,), eps=EPS), **statistics}


@bind("EQ-POWER-STEP")
def power_step(draw):
    """torch's step, which begins on the other side of the matrix: it gets the transposed one."""
    w, u = draw(3, D), F.normalize(draw(3), dim=0)
    linear = torch.nn.Linear(3, D, bias=False, dtype=torch.float64).requires_grad_(False)
    linear.weight.copy_(w.T)
    torch.nn.utils.parametrizations.spectral_norm(linear, n_power_iterations=1)
    norm = linear.parametrizations.weight[0]
    norm._v.copy_(u)
    weight = linear.weight  # in training: torch does one step
    tau = (w.T / weight).mean().item()
    lengths = {"R": 3, "D": D}
    return {
        "W": w,
        "u": u,
        "d": norm._u,
        "t": norm._v,
        "tau": tau,
        "a": u @ w,
        "h": w @ norm._u,
    } | lengths


@bind("EQ-RMS-EPS-OUT")
def rms_eps_out(draw):
    x = draw(D)
    return {
        "x": x,
        "y": x / (F.rms_norm(x, (D,), eps=0.0)[0].reciprocal() * x[0] + EPS),
        "D": D,
        "varepsilon": EPS,
    }


def encoder_layer(draw, norm_first):
    """torch's encoder layer without its attention: norm and MLP alone, F the MLP."""
    layer = torch.nn.TransformerEncoderLayer(
        D, 1, 8, 0.0, layer_norm_eps=0.0, norm_first=norm_first
    )
    layer = layer.double().requires_grad_(False)
    for parameter in [*layer.linear1.parameters(), *layer.linear2.parameters()]:
        parameter.copy_(draw(*parameter.shape))
    for parameter in layer.self_attn.out_proj.parameters():
        parameter.zero_()
    return layer, lambda v: layer.linear2(layer.linear1(v).relu())


def composed(draw, norm_first):
    layer, mlp = encoder_layer(draw, norm_first)
    x = F.layer_norm(draw(5, D), (D,), eps=0.0)  # the norm of the attention then changes nothing
    x = x if not norm_first else x * 2 + 1
    norm = on_arrays(lambda v: functional.layer_norm(v, (D,), eps=0.0))
    return {"x": x, "y": layer(x[:, None])[:, 0], "F": on_arrays(mlp), "LN": norm}


@bind("EQ-PRE-LN")
def pre_ln(draw):
    return composed(draw, norm_first=True)


@bind("EQ-POST-LN")
def post_ln(draw):
    return composed(draw, norm_first=False)


def around_an_mlp(draw, compose):
    """A composition of layers around torch's MLP, with a norm of the library."""
    _, mlp = encoder_layer(draw, norm_first=True)
    x = draw(5, D) * 2 + 1
    norm = partial(functional.layer_norm, normalized_shape=(D,), eps=0.0)
    return {"x": x, "y": compose(x, mlp, norm), "F": on_arrays(mlp), "LN": on_arrays(norm)}


def in_a_block(draw, placement):
    def compose(x, mlp, norm):
        return training.Block(mlp, lambda width: norm, D, placement)(x)

    return around_an_mlp(draw, compose)


@bind("EQ-OUTPUT-LN")
def output_ln(draw):
    return in_a_block(draw, "output")


@bind("EQ-SANDWICH-LN")
def sandwich_ln(draw):
    return in_a_block(draw, "sandwich")


@bind("EQ-LN-SCALING")
def ln_scaling(draw):
    return around_an_mlp(draw, lambda x, mlp, norm: x + mlp(norm(x) * 3**-0.5)) | {"l": 3}


@bind("EQ-DEEPNORM")
def deep_norm(draw):
    def compose(x, mlp, norm):
        return norm(12**0.25 * x + mlp(x))

    constants = {"L": 6, "alpha": 12**0.25, "beta": 48**-0.25}
    return around_an_mlp(draw, compose) | constants


def signed_sums(draw):
    """The start (D,), four branches (4, D), and the stream behind each of them for all 16 signs."""
    start = draw(D)
    branches = draw(4, D)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)), dtype=torch.float64)
    added = torch.cumsum(signs[:, :, None] * branches, 1)  # (16, 4, D)
    return start, branches, start + added


@bind("EQ-STREAM")
def stream(draw):
    start, branches, streams = signed_sums(draw)
    q = {0: start.square().mean().item()}
    q |= {k + 1: streams[:, k].square().mean().item() for k in range(4)}
    return {"q": q, "b": branches.square().mean(1)}


@bind("EQ-POST-SHARE")
def post_share(draw):
    branches = draw(4, D)
    share = torch.tensor(1.0, dtype=torch.float64)
    shares = []
    for branch in branches:
        h = F.rms_norm(draw(D), (D,), eps=0.0)
        square = torch.stack([h + branch, h - branch]).square().mean()
        share = share / square.sqrt()
        shares.append(share)
    return {"c": torch.stack(shares), "b": branches.square().mean(1)}


@bind("EQ-ADALN")
def adaptive_layer_norm(draw):
    x, z, a, b = draw(D), draw(3), draw(D, 3), draw(D, 3)
    gamma, beta = a @ z, b @ z
    y, hatx = functional.layer_norm(x, (D,), 1 + gamma, beta), functional.layer_norm(x, (D,))
    return {"y": y, "hatx": hatx, "gamma": gamma, "beta": beta, "z": z, "A": a, "B": b, "M": 3}


@bind("EQ-VAR-ONE-PASS")
def variance_one_pass(draw):
    x = draw(D)
    return {"x": x, "sigma": x.std(correction=0), "D": D}


@bind("EQ-VAR-TWO-PASS")
def variance_two_pass(draw):
    x = draw(D)
    rounded_mean = x.mean() + 0.1  # a coarse rounding: the last term has something to repair
    return {
        "x": x,
        "barx": rounded_mean,
        "c": x - rounded_mean,
        "sigma": x.std(correction=0),
        "D": D,
    }


@bind("EQ-VAR-WELFORD")
def variance_welford(draw):
    x = draw(D)
    mean = {k: x[:k].mean() if k else 0.0 for k in range(D + 1)}
    moment = {k: x[:k].var(correction=0) * k if k else 0.0 for k in range(D + 1)}
    return {"x": x, "mu": mean, "M": moment, "sigma": x.std(correction=0), "D": D}


@bind("EQ-UNIT")
def unit_vector(draw):
    x = draw(D)
    return {"x": x, "u": F.normalize(x, dim=0), "D": D}


@bind("EQ-SOFTMAX")
def softmax(draw):
    x = draw(D)
    return {"x": x, "p": x.softmax(0), "K": D}
