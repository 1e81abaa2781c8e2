"""DyT and DyISRU as layers.

The official one bit for bit, conversions, what nn.Module promises, errors.
"""

import copy
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from normlib import functional, layers
from tests.library.norm_cases import draw, output_and_gradients

LAYERS = [layers.DyT, layers.DyISRU]
KEYS = {layers.DyT: "alpha", layers.DyISRU: "log_c"}


class Official(nn.Module):
    """DyT as the paper writes it: weight tanh(alpha x) + bias."""

    def __init__(self, size, channels_first, alpha):
        super().__init__()
        self.channels_first = channels_first
        self.alpha = nn.Parameter(torch.full((1,), alpha))
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        channels = (slice(None), None, None) if self.channels_first else ...
        return self.weight[channels] * torch.tanh(self.alpha * x) + self.bias[channels]


def trained(layer, dtype=torch.float32):
    """The layer with parameters all different."""
    layer = layer.to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + 5))
    return layer


def on(layer, x, dy=None):
    """Output, gradients of the input and of the parameters, at one gradient from above."""
    dy = draw(*x.shape, seed=4, dtype=x.dtype) if dy is None else dy
    y, dx = output_and_gradients(layer, dy, x)
    return [y, dx, *torch.autograd.grad(layer(x), list(layer.parameters()), dy)]


# The official layer


@pytest.mark.parametrize(
    ("shape", "first"), [((3, 5, 8), False), ((7, 8), False), ((2, 8, 5, 3), True)]
)
def test_bit_for_bit_the_official_layer(shape, first):  # [EQ-DYT]
    theirs, ours = trained(Official(8, first, 0.5)), layers.DyT(8, channels_first=first)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    x = draw(*shape, dtype=torch.float32) * torch.logspace(-3, 2, 8).reshape(
        (8, 1, 1) if first else (8,)
    )
    assert torch.equal(ours(x), theirs(x))
    for mine, official in zip(on(ours, x), on(theirs, x), strict=True):
        # x dy w (1 - t^2) summed over at most 240 terms of up to 500, in two orders
        assert_close(mine, official, rtol=1e-5, atol=1e-3 if mine.numel() == 1 else 1e-5)


def test_checkpoints_load_both_ways():
    theirs, ours = Official(8, False, 0.5), trained(layers.DyT(8))
    state = ours.state_dict()
    assert state.pop("_extra_state") == 1  # the scale, which the official code does not know
    assert {k: v.shape for k, v in state.items()} == {
        k: v.shape for k, v in theirs.state_dict().items()
    }
    theirs.load_state_dict(state, strict=True)
    x = draw(5, 8, dtype=torch.float32)
    assert torch.equal(ours(x), theirs(x))


# The scale is a part of the state


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("scales", [(1.0, "sqrt_d"), ("sqrt_d", 1.0), (2.0, 2.1)], ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_state_of_another_scale_is_refused_and_changes_nothing(layer, scales, strict):
    stored = nn.Sequential(trained(layer(6, scale=scales[0]))).state_dict()
    model = nn.Sequential(layer(6, scale=scales[1]))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(
        RuntimeError, match=rf"{layer.__name__} has scale .* another function\. Build the"
    ):
        model.load_state_dict(stored, strict=strict)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("layer", LAYERS)
def test_a_state_without_a_scale_keeps_the_constructors(layer):
    module, stored = layer(6, scale=3.0), trained(layer(6, scale=1.0)).state_dict()
    del stored["_extra_state"]
    module.load_state_dict(stored, strict=True)
    assert module.scale == 3.0
    assert torch.equal(module.weight, stored["weight"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_state_that_was_cast_to_a_half_type_is_taken(layer, dtype):
    stored = {
        name: value.to(dtype) for name, value in layer(768, scale="sqrt_d").state_dict().items()
    }
    layer(768, scale="sqrt_d").load_state_dict(stored)


# Start, scale, conversions


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("scale", [1.0, 3.0, "sqrt_d"])
def test_the_start(size, scale):
    """Slope at 0: alpha_init for DyT; 1 for DyISRU, by default. Level: the scale, for both."""
    level = math.sqrt(size) if scale == "sqrt_d" else scale
    for layer, slope in (
        (layers.DyT(size, scale=scale), 0.5),
        (layers.DyT(size, 0.2, scale), 0.2),
        (layers.DyISRU(size, scale=scale), 1.0),
        (layers.DyISRU(size, 4.0, scale), level / 2),
    ):
        layer = layer.double()
        steepest = output_and_gradients(
            layer, torch.ones(size).double(), torch.zeros(size).double()
        )[1]
        # log_c was made in float32, half an ulp of log c <= 4.2 off: 2.4e-7
        assert_close(steepest, torch.full_like(steepest, slope), rtol=1e-6, atol=0)
        far = layer(torch.full((size,), 1e9, dtype=torch.float64))
        assert_close(far, torch.full_like(far, level), rtol=1e-9, atol=0)


def test_the_defaults():
    assert layers.DyT(16).scale == 1 and layers.DyISRU(16).scale == 4
    assert_close(layers.DyISRU(16).c, torch.tensor([16.0]))
    assert_close(layers.DyISRU((2, 8), channels_first=False).c, torch.tensor([16.0]))


@pytest.mark.parametrize("old", [1.0, 2.5, "sqrt_d"])
@pytest.mark.parametrize("new", [1.0, 2.5, "sqrt_d"])
@pytest.mark.parametrize("layer", LAYERS)
def test_rescaled_is_the_same_function(layer, old, new):
    x, first = draw(5, 12), trained(layer(12, scale=old), torch.float64)
    other = first.rescaled(new)
    assert other.scale == (math.sqrt(12) if new == "sqrt_d" else new)
    assert_close(other(x), first(x), rtol=0, atol=1e-14)
    assert_close(other.rescaled(old)(x), first(x), rtol=0, atol=1e-14)


@pytest.mark.parametrize("layer", LAYERS)
def test_rescaled_keeps_what_the_layer_is(layer):
    first = layer(3, 0.7, 2.0, bias=False, channels_first=True, dtype=torch.bfloat16).eval()
    first.weight.requires_grad_(False)
    other = first.rescaled("sqrt_d")
    assert (
        type(other) is layer and not other.training and other.bias is None and other.channels_first
    )
    for name, parameter in first.named_parameters():
        copied = other.get_parameter(name)
        assert copied.dtype == torch.bfloat16 and copied.requires_grad == parameter.requires_grad
        assert copied.data_ptr() != parameter.data_ptr()
    start = "alpha_init" if layer is layers.DyT else "c_init"
    assert getattr(other, start) == getattr(first, start) == 0.7


def test_the_authors_form_is_ours():  # weight x / sqrt(beta + x^2 + 1e-5) + bias
    x, layer = draw(5, 6), trained(layers.DyISRU(6, c_init=100.0 + 1e-5, scale=1.0), torch.float64)
    nn.init.constant_(layer.log_c, math.log(100.0 + 1e-5))
    want = x / torch.sqrt(100.0 + x.square() + 1e-5) * layer.weight + layer.bias
    assert_close(layer(x), want, rtol=0, atol=1e-14)


# c stays positive


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("lr", [1e-2, 1e3, 1e30])
@pytest.mark.parametrize("sign", [-1, 1])
def test_c_stays_positive_after_steps_of_any_size(sign, lr, dtype):
    layer, x = layers.DyISRU(4, dtype=dtype), draw(16, 4, dtype=dtype)
    x[0, 0] = 0.0
    optimizer = torch.optim.SGD([layer.log_c], lr=lr)
    for _ in range(3):
        optimizer.zero_grad()
        (sign * layer(x).abs().sum()).backward()
        optimizer.step()
        assert bool((layer.c > 0).all()) and bool(layer.c.isfinite().all())
        y, dx = output_and_gradients(layer, torch.ones_like(x), x)
        assert bool(y.isfinite().all()) and bool(dx.isfinite().all())
        assert bool(layer.log_c.isfinite().all())


def test_a_plain_c_would_not():
    layer, x = layers.DyISRU(4), draw(16, 4, dtype=torch.float32)
    with pytest.raises(ValueError, match="needs positive numbers as c, got -20"):
        functional.dyisru(x, torch.tensor([-20.0]))
    with torch.no_grad():
        layer.log_c.fill_(-20.0)
    assert bool((layer.c > 0).all()) and bool(layer(x).isfinite().all())


# Shapes


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("scale", [1.0, "sqrt_d"])
@pytest.mark.parametrize("layer", LAYERS)
def test_channels_first_is_channels_last_moved(layer, scale, rank):
    first = trained(layer(6, scale=scale, channels_first=True), torch.float64)
    last = trained(layer(6, scale=scale), torch.float64)
    x = draw(2, 6, *[3, 4, 2][: rank - 2])
    assert_close(first(x), last(x.movedim(1, -1)).movedim(-1, 1), rtol=0, atol=1e-14)
    strided = draw(2, *[3, 4, 2][: rank - 2], 6).movedim(-1, 1)
    assert_close(first(strided), first(strided.contiguous()), rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [1, 5, (5,), [3, 5], (1, 5), torch.Size([2, 3, 5])])
@pytest.mark.parametrize("layer", LAYERS)
def test_any_trailing_shape(layer, shape):
    module = trained(layer(shape, scale="sqrt_d"), torch.float64)
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    assert module.weight.shape == module.bias.shape == torch.Size(size)
    for lead in ((), (4,), (2, 3), (0,)):
        x = draw(*lead, *size)
        if layer is layers.DyT:
            want = functional.dyt(
                x, module.alpha, module.weight, module.bias, math.prod(size) ** 0.5
            )
        else:
            want = functional.dyisru(x, module.log_c.exp(), module.weight, module.bias)
        got, dx, *grads = on(module, x)
        assert torch.equal(got, want.detach()) and dx.shape == x.shape
        assert x.numel() or not any(bool(g.any()) for g in grads)


# What nn.Module promises


@pytest.mark.parametrize("layer", LAYERS)
def test_names_types_and_reset(layer):
    module = layer(6, dtype=torch.float64)
    assert list(module.state_dict()) == [KEYS[layer], "weight", "bias", "_extra_state"]
    assert {p.dtype for p in module.parameters()} == {torch.float64} and not list(module.buffers())
    assert [name for name, _ in layer(6, bias=False).named_parameters()] == [KEYS[layer], "weight"]
    fresh = {name: value.clone() for name, value in module.state_dict().items()}
    trained(module, torch.float64).reset_parameters()
    assert all(torch.equal(value, fresh[name]) for name, value in module.state_dict().items())


def test_repr():
    assert repr(layers.DyT(8)) == "DyT((8,), scale=1, bias=True, alpha_init=0.5)"
    want = "DyISRU((4,), scale=2, bias=False, channels_first=True, c_init=4)"
    assert repr(layers.DyISRU(4, bias=False, channels_first=True)) == want


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layer", LAYERS)
def test_half_layers_round_once(layer, dtype):
    half = trained(layer(6, scale=2.0), dtype)
    full = copy.deepcopy(half).float()
    x = draw(32, 6, dtype=dtype)
    dy = draw(32, 6, seed=4, dtype=dtype)
    for mine, exact in zip(on(half, x, dy), on(full, x.float(), dy.float()), strict=True):
        assert torch.equal(mine, exact.to(dtype))


def test_bfloat16_layers_have_no_dead_zone():  # |alpha x| = 4
    layer, x = layers.DyT(3, dtype=torch.bfloat16), torch.full((2, 3), 8.0, dtype=torch.bfloat16)
    dy = torch.ones_like(x)
    assert bool(output_and_gradients(layer, dy, x)[1].all())
    assert not output_and_gradients(lambda v: torch.tanh(layer.alpha.detach() * v), dy, x)[1].any()


@pytest.mark.slow  # test_pointwise.py compiles the functions under them
@pytest.mark.parametrize("layer", LAYERS)
def test_compiled_for_inputs_of_any_size(layer):
    torch.compiler.reset()  # another test's shapes would make this one dynamic
    module = trained(layer(6, channels_first=True))
    x = draw(2, 6, 3, dtype=torch.float32)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    for mine, eager in zip(on(compiled, x), on(module, x), strict=True):
        # sums of at most 36 float32 terms of order 1
        assert_close(mine, eager, rtol=1e-6, atol=1e-5)
