"""The registry of norms: one row for each, from which tests of functions, gradients, layers follow.

A row says in plain formulas what a function computes, with which arguments it is called, and which
layers stand on it. test_norm_cases.py finds what is public and has no row.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normcourse
from normlib import functional, gradients, layers

EPS = 1e-3  # large, so that a wrong place of eps shows
BIG = (4, 6, 5)  # no two sizes are equal: the input to which bad arguments are given


def draw(*shape, seed=0, dtype=torch.float64):
    """Normal numbers with mean 1, drawn in float64."""
    return (normcourse.draw(*shape, seed=seed) + 1).to(dtype)


def output_and_gradients(function, grad_output, *tensors):
    """function(*tensors), then the gradient of each tensor; the tensors must not change."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    before = [t.detach().clone() for t in tensors]
    output = function(*leaves)
    gradients = torch.autograd.grad(output, leaves, grad_output)
    for leaf, copy in zip(leaves, before, strict=True):
        assert torch.equal(leaf.detach(), copy), "an input was changed in place"
    return [output.detach(), *gradients]


class LayerCase:
    """A layer, how it is built, and the shape of an input: LayerCase("LayerNorm", 5, shape=…)."""

    def __init__(self, name, *args, shape, **kwargs):
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.shape = shape

    def make(self, library=layers, **more):
        return getattr(library, self.name)(*self.args, **self.kwargs, **more)

    @property
    def arguments(self):
        """All that the constructor takes, by name: those that are given."""
        taken = inspect.signature(getattr(layers, self.name))
        return {
            name: taken.bind_partial(*self.args, **self.kwargs).arguments.get(name)
            for name in taken.parameters
        }

    def remade(self, **changed):
        given = {name: value for name, value in self.arguments.items() if value is not None}
        return getattr(layers, self.name)(**(given | changed))

    @property
    def is_torchs(self):
        """Whether torch has the layer, with all of these arguments."""
        if not hasattr(nn, self.name):
            return False
        return self.kwargs.keys() <= inspect.signature(getattr(nn, self.name)).parameters.keys()

    def __str__(self):
        words = [*map(str, self.args), *(f"{key}={value}" for key, value in self.kwargs.items())]
        return f"{self.name}({', '.join(words)})"


@dataclass(frozen=True, kw_only=True)
class NormCase:
    """A function with some of its arguments fixed, so that tensors alone are left."""

    name: str  # of the row
    formula: Callable  # of input and named parameters, analytic: a complex step may enter
    shapes: list  # of inputs, the first one small; smallest, prime and odd ones, every rank
    function: str = ""  # its name in normlib.functional; the row's if not given
    torch_function: Callable | None = None  # with our arguments' names, or with tensors alone
    parameters: dict = field(default_factory=dict)  # name: size for an input's shape
    positive: str = ""  # the parameter that has to be
    options: Callable = lambda shape: {}  # the other arguments, by name, for an input of a shape
    forward_only: Callable = lambda x, *parameters: {}  # those that the gradients do not have
    groups: Callable | None = None  # input: (groups, their values), if values share statistics
    centred: bool = False  # whether the mean is one of these statistics
    witnesses: tuple = ("backward", "jacobian")  # what normlib.gradients may have of this row
    wide: Callable = lambda size: (16, size)  # the shape of an input that has many values
    equation: str = ""  # its tag; of its gradients …-GRAD. For norms of rows and for curves
    symbols: Callable = lambda x, *parameters: {}  # what else equations name: values, functions
    layers: list = field(default_factory=list)

    def __post_init__(self):
        object.__setattr__(self, "function", self.function or self.name)

    def __str__(self):
        return self.name

    @property
    def small(self):
        return self.shapes[0]

    @property
    def has_eps(self):
        return "eps" in self.options(self.small)

    @property
    def is_singular(self):
        """Whether there is no result where all values that share statistics are 0."""
        return self.groups is not None and not self.has_eps

    def draw_parameters(self, shape, dtype=torch.float64):
        """All different, for an input of that shape."""
        found = []
        for seed, (name, size) in enumerate(self.parameters.items(), start=1):
            value = draw(*size(shape), seed=seed)
            found.append((value.exp() if name == self.positive else value).to(dtype))
        return found

    def tensors(self, shape, dtype=torch.float64):
        """Input and parameters."""
        return [draw(*shape, dtype=dtype), *self.draw_parameters(shape, dtype)]

    def arguments(self, shape, *parameters):
        """By name, as forward, backward and Jacobian take them beside the input."""
        return dict(zip(self.parameters, parameters, strict=False)) | self.options(shape)

    def call(self, x, *parameters, library=functional, **changed):
        """normlib's function; parameters that are left out are not given."""
        given = self.arguments(x.shape, *parameters) | self.forward_only(x, *parameters)
        return getattr(library, self.function)(x, **(given | changed))

    def call_torch(self, x, *parameters):
        given = self.arguments(x.shape, *parameters) | self.forward_only(x, *parameters)
        return self.torch_function(x, **given)

    def truths(self):
        """Functions of input and parameters: the formula, and torch's."""
        return [self.formula, self.call_torch] if self.torch_function else [self.formula]

    def witness(self, kind):
        """normlib.gradients' backward or Jacobian of the function; None where it has none."""
        return (
            getattr(gradients, f"{self.function}_{kind}", None) if kind in self.witnesses else None
        )

    def backward(self, grad_output, x, *parameters):
        return self.witness("backward")(grad_output, x, **self.arguments(x.shape, *parameters))

    def jacobian(self, x, *parameters):
        function = self.witness("jacobian")
        taken = inspect.signature(function).parameters
        given = self.arguments(x.shape, *parameters)
        return function(x, **{name: value for name, value in given.items() if name in taken})


class Written(nn.Module):
    """The row's formula with the parameters of a layer that torch does not have."""

    def __init__(self, case, layer):
        super().__init__()
        self.case = case
        self.layer = layer

    def forward(self, x):
        values = {name: getattr(self.layer, name) for name in self.case.parameters}
        given = {name: value for name, value in values.items() if value is not None}
        if not getattr(self.layer, "channels_first", False):
            return self.case.formula(x, **given)
        return self.case.formula(x.movedim(1, -1), **given).movedim(-1, 1)

    def state_dict(self):
        return self.layer.state_dict()

    def load_state_dict(self, state):
        return self.layer.load_state_dict(state)


def pair(case, layer):
    """Our layer and torch's, in float64, with the same parameters, all different."""
    ours = layer.make().double()
    with torch.no_grad():
        for seed, parameter in enumerate(ours.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed))
    if layer.is_torchs:
        theirs = layer.make(nn).double()
    elif hasattr(nn, layer.name):
        pytest.skip(f"this torch's {layer.name} has fewer arguments")
    else:
        theirs = Written(case, layer.make().double())
    assert theirs.load_state_dict(ours.state_dict()).missing_keys == []
    return ours, theirs


# Formulas


def standardized(x, dims, centre=True):
    x = x - x.mean(dims, keepdim=True) if centre else x
    return x / torch.sqrt((x * x).mean(dims, keepdim=True) + EPS)


def root_mean_square(x):
    return torch.sqrt((x * x).mean(-1) + EPS)


def over_last(count, centre=True):
    """Statistics over the last dimensions, then weight, and bias if there is one."""
    dims = tuple(range(-count, 0))

    def formula(x, weight=1.0, bias=0.0):
        return standardized(x, dims, centre) * weight + bias

    return formula


def over_channels(split):
    """Statistics over what split(x) has beyond two dimensions; weight and bias per channel."""

    def formula(x, weight=None, bias=None):
        xhat = standardized(split(x), (2, 3)).reshape(x.shape)
        positions = [1] * (x.dim() - 2)
        scaled = xhat if weight is None else xhat * weight.reshape(-1, *positions)
        return scaled if bias is None else scaled + bias.reshape(-1, *positions)

    return formula


def in_groups(x, groups=2):
    """(N, C, ...) as (N, groups, C / groups, positions)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


def of_batch(x, weight=None, bias=None):
    """Batch normalization: the formula of one sample that holds the whole batch as positions."""
    whole = x.transpose(0, 1).flatten(1)[None]
    formula = over_channels(partial(in_groups, groups=x.shape[1]))
    return formula(whole, weight, bias).reshape(x.transpose(0, 1).shape).transpose(0, 1)


def of_instance(x, weight=None, bias=None):
    return over_channels(partial(in_groups, groups=x.shape[1]))(x, weight, bias)


def running(x, *parameters):
    """Statistics that are exact in every dtype, the mean's square too."""
    dtype = parameters[0].dtype if parameters else x.dtype
    mean = (torch.arange(x.shape[1]) % 5 / 4 - 0.5).to(dtype)
    return {"running_mean": mean, "running_var": mean.square() + 0.5}


def with_running(x, weight=None, bias=None):
    mean, var = (s.reshape(-1, *[1] * (x.dim() - 2)) for s in running(x.real.double()).values())
    scaled = (x - mean) / torch.sqrt(var + EPS)
    if weight is not None:
        scaled = scaled * weight.reshape(mean.shape)
    return scaled if bias is None else scaled + bias.reshape(mean.shape)


def erf(u):
    """By Gauss's quadrature of the integral, which is exact to rounding for |u| < 10."""
    at, share = (torch.from_numpy(a) for a in numpy.polynomial.legendre.leggauss(80))
    t = (at + 1) / 2  # from [-1, 1] to [0, 1]
    bell = torch.exp(-((u.unsqueeze(-1) * t) ** 2))
    return u * (bell * share).sum(-1) / math.sqrt(math.pi)


# Sizes of parameters for an input's shape, and its values that share statistics


def number(shape):
    return (1,)


def last(shape):
    return shape[-1:]


def last_two(shape):
    return shape[-2:]


def channels(shape):
    return shape[1:2]


def rows(count):
    return lambda x: x.flatten(-count).flatten(0, -2) if x.dim() > count else x.reshape(1, -1)


ROW = {"weight": last, "bias": last}
ROW_2 = {"weight": last_two, "bias": last_two}
CHANNEL = {"weight": channels, "bias": channels}


def eps_only(shape):
    return {"eps": EPS}


def of_last(count):
    return lambda shape: {"normalized_shape": tuple(shape[-count:]), "eps": EPS}


IMAGE = (2, 4, 3, 5)
ROW_SHAPES = [(2, 5), (7,), (1, 1), (5, 1), (3, 7), (2, 5, 33), (2, 1, 4, 5), (2, 3, 1, 3, 2)]
ROW_2_SHAPES = [(2, 2, 3), (1, 1), (3, 7), (2, 5, 13), (2, 1, 4, 5), (2, 1, 2, 3, 2)]
CURVE_SHAPES = [(3, 4), (7,), (1, 1), (5, 3), (2, 5, 4), (2, 3, 4, 2), (2, 3, 1, 2, 2)]

ROWS = [
    NormCase(
        name="batch_norm",
        formula=of_batch,
        torch_function=F.batch_norm,
        shapes=[(4, 3), (2, 1), (5, 3), (2, 7, 3), (4, 3, 5, 2), (2, 3, 1, 3, 2), (67, 2)],
        parameters=CHANNEL,
        options=eps_only,
        forward_only=lambda *_: {"running_mean": None, "running_var": None, "training": True},
        groups=lambda x: x.transpose(0, 1).flatten(1),
        centred=True,
        wide=lambda size: (size, 32),
        layers=[
            LayerCase("BatchNorm1d", 4, shape=(7, 4)),
            LayerCase("BatchNorm1d", 4, 1e-2, 0.3, shape=(3, 4, 5)),
            LayerCase("BatchNorm1d", 1, shape=(2, 1)),
            LayerCase("BatchNorm1d", 4, momentum=None, shape=(7, 4)),
            LayerCase("BatchNorm1d", 4, momentum=0.0, shape=(7, 4)),
            LayerCase("BatchNorm1d", 4, track_running_stats=False, shape=(7, 4)),
            LayerCase("BatchNorm1d", 4, momentum=None, track_running_stats=False, shape=(7, 4)),
            LayerCase("BatchNorm2d", 4, shape=IMAGE),
            LayerCase("BatchNorm2d", 4, affine=False, shape=IMAGE),
            LayerCase("BatchNorm2d", 4, bias=False, shape=IMAGE),
        ],
    ),
    NormCase(
        name="batch_norm_eval",
        function="batch_norm",
        formula=with_running,
        torch_function=F.batch_norm,
        shapes=[(2, 3, 2), (1, 1), (5, 3), (2, 7, 3), (4, 3, 5, 2), (2, 3, 1, 3, 2)],
        parameters=CHANNEL,
        options=eps_only,
        forward_only=running,
        witnesses=(),
        wide=lambda size: (size, 32),
    ),
    NormCase(
        name="layer_norm",
        formula=over_last(1),
        torch_function=F.layer_norm,
        shapes=[*ROW_SHAPES, (2, 384)],
        parameters=ROW,
        options=of_last(1),
        groups=rows(1),
        centred=True,
        layers=[
            LayerCase("LayerNorm", 5, shape=(3, 5)),
            LayerCase("LayerNorm", 5, bias=False, shape=(2, 1, 3, 2, 5)),
        ],
    ),
    NormCase(
        name="layer_norm_2",
        function="layer_norm",
        formula=over_last(2),
        torch_function=F.layer_norm,
        shapes=ROW_2_SHAPES,
        parameters=ROW_2,
        options=of_last(2),
        groups=rows(2),
        centred=True,
        wide=lambda size: (64, 4, size // 4),
        layers=[
            LayerCase("LayerNorm", (3, 5), 1e-2, shape=IMAGE),
            LayerCase("LayerNorm", [3, 5], elementwise_affine=False, shape=IMAGE),
        ],
    ),
    NormCase(
        name="rms_norm",
        formula=over_last(1, centre=False),
        torch_function=F.rms_norm,
        equation="EQ-RMS",
        symbols=lambda x, *_: {"r": root_mean_square(x), "hatx": standardized(x, (-1,), False)},
        shapes=[*ROW_SHAPES, (2, 384)],
        parameters={"weight": last},
        options=of_last(1),
        groups=rows(1),
        layers=[
            LayerCase("RMSNorm", 5, shape=(3, 5)),
            LayerCase("RMSNorm", 5, elementwise_affine=False, shape=(5,)),
        ],
    ),
    NormCase(
        name="rms_norm_2",
        function="rms_norm",
        formula=over_last(2, centre=False),
        torch_function=F.rms_norm,
        shapes=ROW_2_SHAPES,
        parameters={"weight": last_two},
        options=of_last(2),
        groups=rows(2),
        wide=lambda size: (64, 4, size // 4),
        layers=[LayerCase("RMSNorm", (3, 5), 1e-2, shape=IMAGE)],
    ),
    NormCase(
        name="group_norm",
        formula=over_channels(in_groups),
        torch_function=F.group_norm,
        shapes=[(2, 4, 2), (2, 2), (3, 6), (1, 6, 5), (2, 4, 3, 5), (2, 4, 1, 3, 2), (2, 26, 7)],
        parameters=CHANNEL,
        options=lambda shape: {"num_groups": 2, "eps": EPS},
        groups=lambda x: in_groups(x).flatten(2).flatten(0, 1),
        centred=True,
        wide=lambda size: (8, size, 3),
        layers=[
            LayerCase("GroupNorm", 2, 4, shape=IMAGE),
            LayerCase("GroupNorm", 1, 4, 1e-2, shape=(3, 4)),
            LayerCase("GroupNorm", 4, 4, affine=False, shape=(2, 4, 3, 1, 2)),
            LayerCase("GroupNorm", 2, 4, bias=False, shape=IMAGE),
        ],
    ),
    NormCase(
        name="instance_norm",
        formula=of_instance,
        torch_function=F.instance_norm,
        shapes=[(2, 2, 3), (1, 1, 2), (2, 3, 7), (2, 3, 4, 5), (2, 3, 1, 3, 2)],
        parameters=CHANNEL,
        options=eps_only,
        groups=lambda x: x.flatten(2).flatten(0, 1),
        centred=True,
        wide=lambda size: (3, 32, size),
        layers=[
            LayerCase("InstanceNorm1d", 4, affine=True, track_running_stats=True, shape=(3, 4, 5)),
            LayerCase("InstanceNorm1d", 4, shape=(3, 4, 5)),
            LayerCase("InstanceNorm1d", 4, 1e-2, 0.3, True, True, shape=(4, 5)),
            LayerCase("InstanceNorm2d", 4, affine=True, bias=False, shape=IMAGE),
            LayerCase("InstanceNorm2d", 4, shape=IMAGE),
            LayerCase("InstanceNorm2d", 4, momentum=None, track_running_stats=True, shape=IMAGE),
            LayerCase("InstanceNorm2d", 4, affine=True, shape=IMAGE[1:]),
        ],
    ),
    NormCase(
        name="weight_norm",
        formula=lambda v, g: g * v / torch.sqrt((v * v).sum(tuple(range(1, v.dim())), True)),
        torch_function=torch._weight_norm,
        shapes=[(3, 2), (3, 5), (4, 3, 2)],
        parameters={"g": lambda shape: (shape[0], *[1] * (len(shape) - 1))},
        options=lambda shape: {"dim": 0},
        groups=lambda v: v.flatten(1),
    ),
    NormCase(
        name="dyt",
        equation="EQ-DYT",
        symbols=lambda x, alpha, *_: {"kappa": 2.5, "t": torch.tanh(alpha * x / 2.5)},
        formula=lambda x, alpha, weight=1.0, bias=0.0: (
            weight * 2.5 * torch.tanh(alpha * x / 2.5) + bias
        ),
        shapes=CURVE_SHAPES,
        parameters={"alpha": number, **ROW},
        options=lambda shape: {"scale": 2.5},
        layers=[
            LayerCase("DyT", 5, scale=2.5, shape=(3, 5)),
            LayerCase("DyT", (3, 5), 0.3, 2.5, bias=False, shape=IMAGE),
            LayerCase("DyT", 4, scale=2.5, channels_first=True, shape=IMAGE),
        ],
    ),
    NormCase(
        name="dyisru",
        equation="EQ-DYISRU",
        symbols=lambda x, *_: {"kappa": math.sqrt(x.shape[-1])},
        formula=lambda x, c, weight=1.0, bias=0.0: (
            weight * math.sqrt(x.shape[-1]) * x / torch.sqrt(x * x + c) + bias
        ),
        shapes=CURVE_SHAPES,
        parameters={"c": number, **ROW},
        positive="c",
        layers=[
            LayerCase("DyISRU", 5, shape=(3, 5)),
            LayerCase("DyISRU", 5, 0.7, bias=False, shape=(2, 1, 3, 2, 5)),
            LayerCase("DyISRU", 4, channels_first=True, shape=IMAGE),
        ],
    ),
    NormCase(
        name="derf",
        formula=lambda x, alpha, shift, weight=1.0, bias=0.0: (
            weight * erf(alpha * x + shift) + bias
        ),
        shapes=CURVE_SHAPES,
        parameters={"alpha": number, "shift": number, **ROW},
        layers=[
            LayerCase("Derf", 5, shape=(3, 5)),
            LayerCase("Derf", (3, 5), 0.3, 0.1, bias=False, shape=IMAGE),
            LayerCase("Derf", 4, channels_first=True, shape=IMAGE),
        ],
    ),
    NormCase(
        name="isru",
        equation="EQ-ISRU",
        formula=lambda x: x / torch.sqrt(1 + 0.7 * x * x),
        shapes=CURVE_SHAPES,
        options=lambda shape: {"alpha": 0.7},
    ),
    NormCase(
        name="softcap",
        equation="EQ-SOFTCAP",
        symbols=lambda x: {"kappa": 1.5},
        formula=lambda x: 1.5 * torch.tanh(x / 1.5),
        shapes=CURVE_SHAPES,
        options=lambda shape: {"cap": 1.5},
    ),
    # of softmax there are gradients only
    NormCase(
        name="softmax",
        formula=lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        torch_function=lambda x, dim: F.softmax(x, dim),
        shapes=[(3, 5), (7,), (1, 1), (3, 5, 2)],
        options=lambda shape: {"dim": -1},
    ),
    NormCase(
        name="softmax_1",
        function="softmax",
        formula=lambda x: x.exp() / x.exp().sum(1, keepdim=True),
        torch_function=lambda x, dim: F.softmax(x, dim),
        shapes=[(3, 5), (3, 5, 2)],
        options=lambda shape: {"dim": 1},
        witnesses=("backward",),
    ),
]

FUNCTIONS = [case for case in ROWS if hasattr(functional, case.function)]
TORCHS = [case for case in FUNCTIONS if case.torch_function]
BACKWARDS = [case for case in ROWS if case.witness("backward")]
JACOBIANS = [case for case in ROWS if case.witness("jacobian")]
SHAPES = [(case, shape) for case in FUNCTIONS for shape in case.shapes]
LAYERS = [(case, layer) for case in ROWS for layer in case.layers]
FIRST_LAYERS = list({layer.name: (case, layer) for case, layer in reversed(LAYERS)}.values())
