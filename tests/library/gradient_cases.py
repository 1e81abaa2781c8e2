"""Formulas to differentiate and their closed-form backwards;
nothing else of normlib has a part in it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from normcourse import draw
from normlib import gradients

EPS = 1e-3


# Formulas, analytic in their arguments, so that a complex step may enter


def standardized(x, dims, centre=True):
    x = x - x.mean(dims, keepdim=True) if centre else x
    return x / torch.sqrt((x * x).mean(dims, keepdim=True) + EPS)


def per_channel(p, x):
    return p.reshape(-1, *[1] * (x.dim() - 2))


def split(groups):
    """(N, C, ...) -> (N, groups, channels of a group, positions);
    None means a group per channel.
    """
    return lambda x: x.reshape(x.shape[0], groups or x.shape[1], -1, math.prod(x.shape[2:]))


def channel_norm(groups, dims):
    def formula(x, w, b):
        return standardized(split(groups)(x), dims).reshape(x.shape) * per_channel(
            w, x
        ) + per_channel(b, x)

    return formula


def weight_norm(v, g):
    return g * v / torch.sqrt((v * v).sum(tuple(range(1, v.dim())), keepdim=True))


@dataclass
class Case:
    formula: Callable
    backward: Callable
    shapes: list  # of the tensor arguments, input first
    torch_forward: Callable | None = None
    dims: tuple = ()  # of the statistics, if it has any, in view(input)
    view: Callable = lambda x: x
    spread: Callable = lambda weight, x: weight  # so that it broadcasts to x
    centred: bool = True
    positive: int | None = None  # this argument is exp of a normal number

    def tensors(self, scale=1.0, mean=0.0):
        drawn = [draw(*shape, seed=k) for k, shape in enumerate(self.shapes)]
        if self.positive is not None:
            drawn[self.positive] = drawn[self.positive].exp()
        return [drawn[0] * scale + mean, *drawn[1:]]


def channel_case(name, shape, groups, dims, torch_forward):
    channels = shape[1:2]
    extra = (groups,) if groups else ()

    def backward(dy, x, w, b):
        return getattr(gradients, f"{name}_backward")(dy, x, *extra, w, b, EPS)

    shapes = [shape, channels, channels]
    forward = channel_norm(groups, dims)
    return Case(forward, backward, shapes, torch_forward, dims, split(groups), spread=per_channel)


def row_case(shape, rows, centre):
    dims = tuple(range(-len(rows), 0))
    if centre:
        return Case(
            lambda x, w, b: standardized(x, dims) * w + b,
            lambda dy, x, w, b: gradients.layer_norm_backward(dy, x, rows, w, b, EPS),
            [shape, rows, rows],
            lambda x, w, b: F.layer_norm(x, rows, w, b, EPS),
            dims,
        )
    return Case(
        lambda x, w: standardized(x, dims, centre=False) * w,
        lambda dy, x, w: gradients.rms_norm_backward(dy, x, rows, w, EPS),
        [shape, rows],
        lambda x, w: F.rms_norm(x, rows, w, EPS),
        dims,
        centred=False,
    )


def batch_norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, True, eps=EPS)


def instance_norm(x, w, b):
    return F.instance_norm(x, weight=w, bias=b, eps=EPS)


ROWS = [
    ((1, 1), (1,)),
    ((3, 7), (7,)),
    ((2, 5, 33), (33,)),
    ((2, 3, 4, 5), (4, 5)),
    ((2, 1, 2, 3, 2), (3, 2)),
]
IMAGES = [(5, 3), (4, 3, 5), (3, 6, 2, 5), (2, 4, 2, 3, 2)]
CASES = {
    **{f"layer_norm {s}": row_case(s, rows, centre=True) for s, rows in ROWS},
    **{f"rms_norm {s}": row_case(s, rows, centre=False) for s, rows in ROWS},
    **{f"batch_norm {s}": channel_case("batch_norm", s, None, (0, 3), batch_norm) for s in IMAGES},
    **{
        f"instance_norm {s}": channel_case("instance_norm", s, None, (3,), instance_norm)
        for s in IMAGES[1:]
    },
    **{
        f"group_norm {s}": channel_case(
            "group_norm", s, 2, (2, 3), lambda x, w, b: F.group_norm(x, 2, w, b, EPS)
        )
        for s in [(3, 6), (2, 4, 5), *IMAGES[2:]]
    },
    "weight_norm": Case(weight_norm, gradients.weight_norm_backward, [(4, 3, 2), (4, 1, 1)]),
    "softmax": Case(
        lambda x: x.exp() / x.exp().sum(1, keepdim=True),
        lambda dy, x: gradients.softmax_backward(dy, x, 1),
        [(3, 5, 2)],
        torch_forward=lambda x: F.softmax(x, 1),
    ),
    "dyt": Case(
        lambda x, alpha, w, b: w * 2 * torch.tanh(alpha * x / 2) + b,
        lambda dy, *args: gradients.dyt_backward(dy, *args, scale=2.0),
        [(2, 3, 5), (1,), (5,), (5,)],
    ),
    "dyisru": Case(
        lambda x, c, w, b: w * 5**0.5 * x / torch.sqrt(x * x + c) + b,
        gradients.dyisru_backward,
        [(2, 3, 5), (1,), (5,), (5,)],
        positive=1,
    ),
    "softcap": Case(
        lambda x: 1.5 * torch.tanh(x / 1.5),
        lambda dy, x: gradients.softcap_backward(dy, x, 1.5),
        [(3, 4)],
    ),
}


def autograd(formula, tensors, dy):
    tensors = [t.clone().requires_grad_() for t in tensors]
    return torch.autograd.grad(formula(*tensors), tensors, dy)
