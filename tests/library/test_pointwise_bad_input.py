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
    with pytest.raises((ValueError, TypeError)):
        layers.DyISRU.from_beta(value, torch.ones(4), eps=0.0)


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
