"""What the element-wise functions and layers refuse: the error names what came and the fix."""

import math

import pytest
import torch

from normlib import functional, layers
from tests.library.norm_cases import draw

LEARNED = [functional.dyt, functional.dyisru]
FIXED = [functional.isru, functional.softcap]
LAYERS = [layers.DyT, layers.DyISRU]


# Functions


@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, "sqrt_d", "sqrt_dd"])
@pytest.mark.parametrize("function", LEARNED)
def test_a_bad_scale_is_refused(function, scale):
    with pytest.raises(
        ValueError, match=rf"needs a positive number as scale, got scale={scale!r}\. "
    ):
        function(draw(4), draw(1), scale=scale)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "a"])
@pytest.mark.parametrize("function", FIXED)
def test_a_bad_constant_is_refused(function, value):
    with pytest.raises(
        ValueError, match=rf"^{function.__name__} needs a positive number as (alpha|cap), got"
    ):
        function(draw(4), value)


@pytest.mark.parametrize("function", LEARNED + FIXED)
def test_integers_and_lists_are_refused(function):
    number = draw(1) if function in LEARNED else 1.0
    with pytest.raises(
        NotImplementedError, match=rf"^{function.__name__} needs .* got torch.int64"
    ):
        function(torch.arange(4), number)
    with pytest.raises(TypeError, match=rf"^{function.__name__} needs a tensor, got list"):
        function([1.0], number)


@pytest.mark.parametrize("function", LEARNED)
def test_parameters_that_do_not_fit_are_refused(function):
    x, a, w, b = draw(5, 4), draw(1), draw(4), draw(4)
    for bad in (
        [a, w[:3], b],
        [a, w, b[:3]],
        [w[:3], w, b],
        [a, w.reshape(4, 1), b],
        [a, w.expand(2, 5, 4)],
    ):
        with pytest.raises(RuntimeError, match=r"needs a \w+ that broadcasts to input \(5, 4\)"):
            function(x, *bad)
    with pytest.raises(
        TypeError, match=rf"^{function.__name__} needs a tensor as \w+, got 0\.5\. Wrap it"
    ):
        function(x, 0.5)


ONE = torch.tensor(1.0)
CURVES = {  # of input, weight and bias
    "dyt": lambda x, *affine: functional.dyt(x, ONE, *affine),
    "dyisru": lambda x, *affine: functional.dyisru(x, ONE, *affine, scale=1.0),
    "derf": lambda x, *affine: functional.derf(x, ONE, 0 * ONE, *affine),
}
PER_FEATURE = {  # shape of the input: shapes of a gain that are taken
    (2, 3, 6): [(6,), (3, 6), (2, 3, 6), (3, 1)],
    (2, 4, 3, 5): [(5,), (3, 5), (4, 1, 1)],
    (5, 4): [(4,), (5, 4)],
    (): [()],
}
NOT_PER_FEATURE = {  # that broadcast as well, and are one number for all, or one a row
    (2, 3, 6): [(), (1,), (1, 1), (1, 6), (2, 1, 1), (2, 3, 1), (1, 3, 6)],
    (2, 4, 3, 5): [(3, 1), (1, 5), (1, 4, 1, 1), (2, 1, 1, 1)],
    (5, 4): [(1, 4), (5, 1)],
}


def each(table):
    return [(shape, size) for shape, sizes in table.items() for size in sizes]


@pytest.mark.parametrize(("shape", "size"), each(PER_FEATURE), ids=str)
@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_a_gain_per_feature_or_channel_is_taken(curve, shape, size):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    gain = torch.full(size, 2.0)
    assert torch.equal(curve(x, gain), 2 * curve(x))
    assert torch.equal(curve(x, None, gain), curve(x) + 2)


@pytest.mark.parametrize(("shape", "size"), each(NOT_PER_FEATURE), ids=str)
@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_a_gain_that_only_broadcasts_is_refused(curve, shape, size):
    """As a norm refuses it: a transposed gain is no other model."""
    x = torch.ones(shape)
    for affine in ([torch.ones(size)], [None, torch.ones(size)]):
        with pytest.raises(RuntimeError, match=r"Give one entry per feature"):
            curve(x, *affine)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_a_gain_without_a_floating_type_is_refused(curve, dtype):
    bad = torch.ones(4).to(dtype)
    for affine in ([bad], [None, bad]):
        with pytest.raises(RuntimeError, match=rf"(weight|bias) of 16, 32 .* got {dtype}\. Call"):
            curve(torch.ones(5, 4), *affine)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("function", LEARNED)
def test_a_number_without_a_floating_type_is_refused(function, dtype):
    with pytest.raises(RuntimeError, match=rf"needs (alpha|c) of 16, 32 .* got {dtype}\. Call"):
        function(torch.ones(5, 4), torch.ones(1).to(dtype))
    with pytest.raises(RuntimeError, match=rf"needs shift of 16, 32 .* got {dtype}\. Call"):
        functional.derf(torch.ones(5, 4), torch.ones(1), torch.ones(1).to(dtype))


@pytest.mark.parametrize("c", [0.0, -1.0, math.nan, [2.0, -1.0]], ids=str)
def test_a_c_that_is_not_positive_is_refused(c):
    with pytest.raises(ValueError, match=r"^dyisru needs positive numbers as c, .* Learn log c"):
        functional.dyisru(torch.zeros(3, 2), torch.tensor(c))
    with pytest.raises(ValueError, match="needs positive numbers as c"):
        functional.dyisru(torch.zeros(3, 2), torch.nn.Parameter(torch.tensor(c)))


def test_a_c_whose_values_are_not_known_is_not_looked_at():
    """In compiled code, of a batch under vmap, without data: NaN comes out, and no error."""
    x = torch.zeros(3, 2)
    negative = torch.tensor([-1.0])
    compiled = torch.compile(functional.dyisru, backend="eager", fullgraph=True)
    assert compiled(x, negative).isnan().all()
    of_two = torch.vmap(functional.dyisru, in_dims=(None, 0))(x, torch.tensor([[4.0], [-1.0]]))
    assert of_two[0].isfinite().all() and of_two[1].isnan().all()
    assert functional.dyisru(x.to("meta"), negative.to("meta")).shape == x.shape


# Layers


@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, "sqrt_dd", None])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_refuses_a_bad_scale(layer, scale):
    with pytest.raises(
        ValueError, match=rf"^{layer.__name__} needs a positive number as scale, got scale="
    ):
        layer(4, scale=scale)
    with pytest.raises(ValueError, match=r'as scale.* or "sqrt_d" for'):
        layer(4).rescaled(scale)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "one"])
def test_a_bad_c_is_refused(value):
    with pytest.raises(ValueError, match="DyISRU needs a positive number as c_init, got c_init="):
        layers.DyISRU(4, value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_bad_alpha_is_refused(value):
    with pytest.raises(ValueError, match=r"DyT needs a finite alpha_init, got .* Pass 0\.5, say\."):
        layers.DyT(4, value)
    assert layers.DyT(4, -1.0).alpha.item() == -1  # negative and zero are no nonsense
    assert layers.DyT(4, 0.0).alpha.item() == 0


@pytest.mark.parametrize("layer", LAYERS)
def test_a_wrong_size_is_refused(layer):
    name = layer.__name__
    bad = [
        (layer(4), (5, 3)),
        (layer(1), (5, 4)),
        (layer((2, 4)), (5, 4)),
        (layer((1, 4)), (5, 4)),
        (layer(4), ()),
    ]
    for module, shape in bad:  # a weight of size 1 would broadcast
        with pytest.raises(
            RuntimeError, match=rf"^{name} needs an input whose last dimensions are"
        ):
            module(torch.ones(shape))
    for size, shape in ((4, (2, 3, 4)), (1, (2, 3, 4)), (4, (2, 5))):
        with pytest.raises(RuntimeError, match=f"^{name} needs"):
            layer(size, channels_first=True)(torch.ones(shape))


@pytest.mark.parametrize("layer", LAYERS)
def test_other_nonsense_is_refused(layer):
    name = layer.__name__
    with pytest.raises(
        NotImplementedError, match=rf"^{name} needs .* got torch.int64. Call input.float\(\)"
    ):
        layer(4)(torch.arange(4))
    with pytest.raises(NotImplementedError, match=rf"^{name} needs .* got torch.int64"):
        layer(4, channels_first=True)(torch.arange(4)[None])
    with pytest.raises(
        RuntimeError, match=rf"^{name} needs an input \(N, C, ...\), got \(4,\)\. Add a batch"
    ):
        layer(4, channels_first=True)(torch.ones(4))
    with pytest.raises(
        ValueError, match=rf"^{name} needs one number of channels .* got \(3, 4\)\. Pass C"
    ):
        layer((3, 4), channels_first=True)
    with pytest.raises(RuntimeError, match="size mismatch"):
        layer(4, scale=1.0).load_state_dict(layer(5, scale=1.0).state_dict())
