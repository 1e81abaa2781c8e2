"""Bindings of the gradients and Jacobians: values from normlib.gradients, paths from autograd."""

import torch
import torch.nn.functional as F

from normlib import gradients
from tests.equations.bindings import EPS, D, N, bind, by_channel

GRADS = ("dL_dx", "dL_dw", "dL_db")


def named(grads, names=GRADS):
    return dict(zip(names, grads, strict=True))


@bind("EQ-BN-GRAD")
def batch_norm(draw):
    x, w, b, dy = draw(2, 3, 2), draw(3), draw(3), draw(2, 3, 2)
    grads = named(gradients.batch_norm_backward(dy, x, w, b, EPS))
    grads["dL_dx"] = by_channel(grads["dL_dx"])
    rows, dy = by_channel(x), by_channel(dy)
    scale = {"s": (rows.var(0, correction=0) + EPS).sqrt(), "sigma": rows.std(0, correction=0)}
    hatx = by_channel(F.batch_norm(x, None, None, training=True, eps=EPS))
    return (
        grads | scale | {"hatx": hatx, "w": w, "dL_dy": dy, "g": w * dy, "m": 4, "varepsilon": EPS}
    )


@bind("EQ-BN-PATHS")
def batch_norm_paths(draw):
    x, w, dy = draw(4, 3), draw(3), draw(4, 3)
    mean, var = x.mean(0).requires_grad_(), x.var(0, correction=0).requires_grad_()
    xhat = (x - mean) / torch.sqrt(var + EPS)  # mean and var as inputs of their own
    by_var, by_mean = torch.autograd.grad(w * xhat, (var, mean), dy)
    dx, _ = gradients.batch_norm_backward(dy, x, w, eps=EPS)
    statistics = {"s": torch.sqrt(var + EPS), "mu": mean, "x": x, "g": w * dy, "m": 4}
    return statistics | {"dL_dx": dx, "dL_dv": by_var, "dL_dmu": by_mean}


@bind("EQ-BN-JACOBIAN")
def batch_norm_jacobian(draw):
    x, w = draw(4, 3), draw(3)
    blocks = gradients.batch_norm_jacobian(x, w, eps=EPS)  # (C, m, m)
    # as autograd lays it out
    whole = torch.einsum("cnk,cd->nckd", blocks, torch.eye(3, dtype=x.dtype))
    hatx = F.batch_norm(x, None, None, training=True, eps=EPS)
    return {
        "dy_dx": whole,
        "hatx": hatx,
        "s": (x.var(0, correction=0) + EPS).sqrt(),
        "w": w,
        "m": 4,
    }


@bind("EQ-LN-GRAD")
def layer_norm(draw):
    x, w, b, dy = draw(N, D), draw(D), draw(D), draw(N, D)
    grads = named(gradients.layer_norm_backward(dy, x, (D,), w, b, EPS))
    sigma = x.std(1, correction=0)
    scale = {"s": (sigma**2 + EPS).sqrt(), "sigma": sigma, "D": D, "N": N, "varepsilon": EPS}
    return (
        grads | scale | {"hatx": F.layer_norm(x, (D,), eps=EPS), "w": w, "dL_dy": dy, "g": (w * dy)}
    )


@bind("EQ-LN-JACOBIAN")
def layer_norm_jacobian(draw):
    x, w = draw(D), draw(D)
    scale = (x.var(correction=0) + EPS).sqrt()
    jacobian = gradients.layer_norm_jacobian(x, (D,), w, eps=EPS)
    return {"dy_dx": jacobian, "hatx": F.layer_norm(x, (D,), eps=EPS), "s": scale, "w": w, "D": D}


@bind("EQ-LN-TANGENT")
def layer_norm_tangent(draw):
    x, w, dy = draw(D), draw(D), draw(D)
    dx, _ = gradients.layer_norm_backward(dy, x, (D,), w, eps=EPS)
    scale = {"s": (x.var(correction=0) + EPS).sqrt(), "D": D, "varepsilon": EPS}
    return scale | {"dL_dx": dx, "g": w * dy, "hatx": F.layer_norm(x, (D,), eps=EPS)}


@bind("EQ-GN-GRAD")
def group_norm(draw):
    x, w, b, dy = draw(2, 6, 2), draw(6), draw(6), draw(2, 6, 2)
    groups = (2, 2, 3, 2)  # (N, G, K, P)
    dx, dw, db = gradients.group_norm_backward(dy, x, 2, w, b, EPS)
    hatx = F.group_norm(x, 2, eps=EPS).reshape(groups)
    sigma = x.reshape(groups).std((2, 3), correction=0)
    grads = named((dx.reshape(groups), dw.reshape(2, 3), db.reshape(2, 3)))
    scale = {
        "s": (sigma**2 + EPS).sqrt(),
        "sigma": sigma,
        "N": 2,
        "K": 3,
        "P": 2,
        "varepsilon": EPS,
    }
    w, dy = w.reshape(2, 3), dy.reshape(groups)
    return grads | scale | {"hatx": hatx, "w": w, "dL_dy": dy, "g": w[..., None] * dy}


@bind("EQ-IN-GRAD")
def instance_norm(draw):
    x, w, b, dy = draw(2, 3, 4), draw(3), draw(3), draw(2, 3, 4)
    grads = named(gradients.instance_norm_backward(dy, x, w, b, EPS))
    sigma = x.std(2, correction=0)
    scale = {"s": (sigma**2 + EPS).sqrt(), "sigma": sigma, "N": 2, "P": 4, "varepsilon": EPS}
    return (
        grads
        | scale
        | {"hatx": F.instance_norm(x, eps=EPS), "w": w, "dL_dy": dy, "g": (w[:, None] * dy)}
    )


@bind("EQ-WN-GRAD")
def weight_norm(draw):
    v, g, dw = draw(3, D), draw(3, 1), draw(3, D)
    dv, dg = gradients.weight_norm_backward(dw, v, g)
    return {
        "dL_dv": dv,
        "dL_dg": dg[:, 0],
        "dL_dW": dw,
        "v": v,
        "g": g[:, 0],
        "ell": v.norm(dim=1),
        "D": D,
    }


@bind("EQ-RMS-PATHS")
def rms_norm_paths(draw):
    x, w, dy = draw(D).requires_grad_(), draw(D), draw(D)
    r = (x.square().mean() + EPS).sqrt()
    (by_x,) = torch.autograd.grad(r, x)
    r = r.detach().requires_grad_()  # an input of its own
    (by_r,) = torch.autograd.grad(w * x / r, r, dy)
    dx, _ = gradients.rms_norm_backward(dy, x, (D,), w, EPS)
    paths = {"dL_dx": dx, "dL_dr": by_r, "dr_dx": by_x, "dL_dy": dy}
    return paths | {"x": x, "w": w, "g": w * dy, "r": r, "D": D}


@bind("EQ-RMS-JACOBIAN")
def rms_norm_jacobian(draw):
    x, w = draw(D), draw(D)
    hatx = F.rms_norm(x, (D,), eps=EPS)
    jacobian = gradients.rms_norm_jacobian(x, (D,), w, EPS)
    return {"dy_dx": jacobian, "hatx": hatx, "r": x[0] / hatx[0], "w": w, "D": D}


@bind("EQ-RMS-RADIAL")
def rms_norm_radial(draw):
    x, w, dy = draw(D), draw(D), draw(D)
    dx, _ = gradients.rms_norm_backward(dy, x, (D,), w, EPS)
    hatx = F.rms_norm(x, (D,), eps=EPS)
    return {
        "x": x,
        "dL_dx": dx,
        "g": w * dy,
        "hatx": hatx,
        "r": x[0] / hatx[0],
        "D": D,
        "varepsilon": EPS,
    }


@bind("EQ-UNIT-JACOBIAN")
def unit_vector(draw):
    x = draw(D)
    # x / |x| is RMSNorm without eps, over the root of D
    jacobian = gradients.rms_norm_jacobian(x, (D,), eps=0.0) / D**0.5
    return {"x": x, "u": F.normalize(x, dim=0), "du_dx": jacobian}


@bind("EQ-SOFTMAX-JACOBIAN")
def softmax_jacobian(draw):
    x = draw(D)
    return {"p": x.softmax(0), "dp_dx": gradients.softmax_jacobian(x)}


@bind("EQ-SOFTMAX-GRAD")
def softmax(draw):
    x, dp = draw(D), draw(D)
    (dx,) = gradients.softmax_backward(dp, x)
    return {"p": x.softmax(0), "dL_dp": dp, "dL_dx": dx, "K": D}


@bind("EQ-DYT-JACOBIAN")
def dyt_jacobian(draw):
    x, w, alpha = draw(D), draw(D), draw(1)
    jacobian = gradients.dyt_jacobian(x, alpha, w, scale=2.0)
    return {"dy_dx": jacobian, "x": x, "w": w, "alpha": alpha.item(), "kappa": 2.0}


@bind("EQ-DYISRU-JACOBIAN")
def dyisru_jacobian(draw):
    x, w, c = draw(D), draw(D), draw(1).exp()
    return {
        "dy_dx": gradients.dyisru_jacobian(x, c, w),
        "x": x,
        "w": w,
        "c": c.item(),
        "kappa": (D**0.5),
    }
