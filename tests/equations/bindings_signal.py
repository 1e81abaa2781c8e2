"""Bindings of the equations of lessons 00 and 08.

They are about activation functions, signal and gradient through depth, clipping, and runs.
"""

import itertools
import math
import statistics

import numpy as np
import torch
import torch.nn.functional as F

from normcourse import measures
from normlib import gradients
from tests.equations.bindings import D, bind


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def is_positive(value):
    return np.asarray(value > 0, dtype=float)


# Activation functions


def curve(draw, function, slope, **symbols):
    """Values from torch, slopes from the closed form."""
    x = draw(9)
    return {"x": x, "y": function(x), "dy_dx": slope(x), "step": is_positive, **symbols}


def bind_curve(tag, name, **symbols):
    @bind(tag)
    def binding(draw):
        return curve(draw, *measures.ACTIVATIONS[name], **symbols)


bind_curve("EQ-SIGMOID", "sigmoid")
bind_curve("EQ-TANH", "tanh")
bind_curve("EQ-RELU", "ReLU")
bind_curve("EQ-ELU", "ELU")


@bind("EQ-LEAKY-RELU")
def leaky_relu(draw):
    return curve(
        draw, lambda x: F.leaky_relu(x, 0.2), lambda x: measures.leaky_relu_slope(x, 0.2), a=0.2
    )


@bind("EQ-GELU")
def gelu(draw):
    case = curve(draw, *measures.ACTIVATIONS["GELU"], erf=np.vectorize(math.erf), pi=math.pi)
    normal = torch.distributions.Normal(number(0.0), number(1.0))
    return case | {"Phi": normal.cdf(case["x"]), "varphi": normal.log_prob(case["x"]).exp()}


@bind("EQ-SWISH")
def swish(draw):
    def case(beta):
        x, b = draw(5), number(beta).requires_grad_()
        by_beta = torch.autograd.functional.jacobian(lambda b: measures.swish(x, b), b)
        values = {"x": x, "y": measures.swish(x, b), "dy_dx": measures.swish_slope(x, b)}
        return values | {"dy_dbeta": by_beta, "beta": beta, "s": torch.sigmoid(beta * x)}

    return [case(1.0), case(-0.7)]


# Saturation


def thresholds(found, epsilon):
    return {"x_out": found.output, "x_slope": found.slope, "varepsilon": epsilon}


@bind("EQ-SIGMOID-SETS")
def sigmoid_sets(draw):
    return [thresholds(measures.sigmoid_thresholds(e), e) for e in (0.2, 0.01)]


@bind("EQ-TANH-SETS")
def tanh_sets(draw):
    return [thresholds(measures.tanh_thresholds(e), e) for e in (0.7, 0.01)]


# Depth


def layer(draw, weight, x, upstream):
    """One layer of tanh, its gradients by autograd."""
    x, bias = x.clone().requires_grad_(), draw(len(weight))
    z = weight @ x + bias
    h = torch.tanh(z)
    jacobian = torch.autograd.functional.jacobian(
        lambda v: torch.tanh(weight @ v + bias), x.detach()
    )
    (grad,) = torch.autograd.grad(h, x, upstream)
    found = {
        "W": weight,
        "x": x,
        "b": bias,
        "z": z,
        "h": h,
        "f": np.tanh,
        "s": (measures.tanh_slope(z)),
    }
    return found | {"dh_dx": jacobian, "dL_dh": upstream, "dL_dx": grad, "D": D, "n": len(weight)}


@bind("EQ-LAYER-JACOBIAN")
def layer_jacobian(draw):
    return layer(draw, draw(3, D), draw(D), draw(3))


@bind("EQ-LAYER-BOUND")
def layer_bound(draw):
    weight = draw(3, D)
    u, s, _ = torch.linalg.svd(weight)
    slopes = number([0.6, 0.6, 0.6])  # equal, so that the steepest direction stays the steepest
    worst = {
        "dL_dx": weight.T @ (slopes * 2 * u[:, 0]),
        "dL_dh": 2 * u[:, 0],
        "s": slopes,
        "c": (s[0]),
    }
    cases = [layer(draw, weight, draw(D), draw(3)) for _ in range(3)]
    return [worst, *(case | {"c": measures.spectral_norm(weight)} for case in cases)]


@bind("EQ-DEPTH-DECAY")
def depth_decay(draw):
    norms = draw(4).abs() + 0.1
    return {"n": dict(enumerate(norms)), "K": 3, "lambda": measures.decay_rate(norms)}


@bind("EQ-MEAN-FIELD")
def mean_field(draw):
    q, rates = measures.mean_field(torch.tanh, measures.tanh_slope, 1.7, 2, start=0.6)
    z, weights = np.polynomial.hermite_e.hermegauss(250)  # a quadrature of another kind
    weights = weights / weights.sum()
    r = q[:-1].sqrt()
    slopes = measures.tanh_slope(r[:, None] * torch.from_numpy(z))
    tables = {
        name: {k + 1: v for k, v in enumerate(values)}
        for name, values in (("lambda", rates), ("r", r))
    }
    tables["s"] = {k + 1: row.numpy() for k, row in enumerate(slopes)}
    values = {"q": dict(enumerate(q)), "w": 1.7, "f": np.tanh, "z": z, "E": lambda v: weights @ v}
    return values | tables


# Random weights


def all_weights(count, values=(-1.0, 0.5, 0.5)):
    """(draws, count): every outcome of independent weights of mean 0 and variance 1/2."""
    return number(list(itertools.product(values, repeat=count)))


@bind("EQ-INIT")
def init(draw):
    x, d = draw(3) + 1, draw(2) - 1
    values = {"n_in": 3, "n_out": 2, "x": x, "d": d, "E": np.mean, "v": 0.5}
    squares = {"q": x.square().mean(), "p": d.square().mean()}
    return values | squares | {"z": all_weights(3) @ x, "g": all_weights(2) @ d}


@bind("EQ-XAVIER")
def xavier(draw):
    v = statistics.harmonic_mean([1 / 3, 1 / 7])
    return {"v": v, "n_in": 3, "n_out": 7, "v_in": 1 / 3, "v_out": 1 / 7}


@bind("EQ-HE")
def he(draw):
    z = draw(9)
    z = torch.cat([z, -z])
    return {"v": measures.he_variance(5), "n_in": 5, "z": z, "h": torch.relu(z), "E": np.mean}


# Attention


@bind("EQ-LOGIT-VARIANCE")
def logit_variance(draw):
    def case(q, k, dim=2):
        """Every outcome of entries that are independent and uniform on q and on k."""
        products = [a * b for a in q for b in k]
        logits = number([sum(choice) for choice in itertools.product(products, repeat=dim)])
        law = {
            "query_std": q.std(correction=0),
            "key_std": k.std(correction=0),
            "query_mean": q.mean(),
            "key_mean": k.mean(),
        }
        law = {name: value.item() for name, value in law.items()}
        named = zip(("sigma_q", "sigma_k", "mu_q", "mu_k"), law.values(), strict=True)
        raw = measures.logit_variance(dim, **law)
        scaled = (logits / math.sqrt(dim)).var(correction=0)
        return {"v_raw": raw, "v_scaled": scaled, "D": dim, **dict(named)}

    return case(draw(3), draw(2) + 1)


@bind("EQ-ENTROPY")
def entropy(draw):
    cases = [draw(D), number([0.3] * D)]
    return [{"p": x.softmax(-1), "H": measures.softmax_entropy(x), "K": D} for x in cases]


@bind("EQ-SOFTMAX-BOUND")
def softmax_bound(draw):
    cases = [draw(D), 5 * draw(D), number([0.4, 0.4])]
    norm = [measures.spectral_norm(gradients.softmax_jacobian(x)) for x in cases]
    return [{"p": x.softmax(-1), "c": c, "K": len(x)} for x, c in zip(cases, norm, strict=True)]


# Clipping


@bind("EQ-CLIP-NORM")
def clip_norm(draw):
    g = 3 * draw(5)
    return {"g": g, "y": measures.clip_by_norm(g, 0.7), "C": 0.7, "n": 5}


@bind("EQ-CLIP-VALUE")
def clip_value(draw):
    cases = [draw(5), 0.3 * draw(5), number([-1.0, 2.0, 0.7, 1.0, -0.7])]
    return [{"g": g, "y": measures.clip_by_value(g, 0.7), "C": 0.7, "n": 5} for g in cases]


@bind("EQ-CLIP-QUANTILE")
def clip_quantile(draw):
    def case(size, share):
        norms = draw(size).abs().sort(descending=True).values
        threshold = measures.clipping_threshold(norms, share)
        return {"n": norms, "C": threshold, "s": share, "N": len(norms), "step": is_positive}

    return [case(7, 0.5), case(5, 0.8), case(5, 0.9)]


# Runs


@bind("EQ-PAIRED")
def paired(draw):
    d = draw(5)
    found = measures.paired(d, 0 * d)
    q = 2.7764451051977987  # of Student's t with 4 degrees of freedom, 97.5 %, as tables have it
    symbols = {"d": d, "n": 5, "q": q, "m": found.mean, "h": found.high - found.mean}
    return symbols | {"s": d.std()}


@bind("EQ-RUN-STABILITY")
def run_stability(draw):
    norms = draw(6).abs() + 0.1
    found = measures.run_stability(norms)
    return {"g": norms, "S": found.mean, "P": found.peak, "T": 6}


@bind("EQ-RUN-SPEED")
def run_speed(draw):
    def case(accuracies, steps, c):
        speed = measures.run_speed(accuracies, steps)
        symbols = {"V": speed, "c": c, "tau": 0.9, "J": len(steps), "step": is_positive}
        return symbols | {"a": number(accuracies), "t": number(steps)}

    return [case([0.2, 0.5, 0.91, 0.4, 0.95], [2, 3, 5, 8, 9], 3), case([0.9, 0.1], [4, 7], 1)]


@bind("EQ-GAP")
def gap(draw):
    return {"a_train": 0.97, "a_test": 0.91, "G": (1 - 0.91) - (1 - 0.97)}
