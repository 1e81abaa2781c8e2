"""derf, its gradients and its layer.

By hand, the official layer, identities, tails, half types, errors.
"""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from normlib import functional, gradients, layers
from tests.library.norm_cases import draw

SHAPES = [(), (7,), (1, 1), (5, 3), (2, 5, 4), (2, 3, 4, 2)]
UNIT = torch.finfo(torch.float64).eps


class Official(nn.Module):
    """Derf as the paper writes it: weight erf(alpha x + shift) + bias."""

    def __init__(self, size, channels_first):
        super().__init__()
        self.channels_first = channels_first
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.shift = nn.Parameter(torch.zeros(1))
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        channels = (slice(None), None, None) if self.channels_first else ...
        return self.weight[channels] * torch.erf(self.alpha * x + self.shift) + self.bias[channels]


def operands(shape, dtype=torch.float64):
    """x, alpha, shift, weight, bias."""
    numbers = [draw(*shape[:0], seed=1).abs(), draw(*shape[:0], seed=2)]
    vectors = [draw(*shape[-1:], seed=3), draw(*shape[-1:], seed=4)]
    return [value.to(dtype) for value in (draw(*shape), *numbers, *vectors)]


def trained(layer):
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + 5))
    return layer


# The function


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_by_hand(shape):  # [EQ-DERF]
    x, alpha, shift, w, b = operands(shape)
    got = functional.derf(x, alpha, shift, w, b)
    values = [math.erf(alpha.item() * v + shift.item()) for v in x.flatten().tolist()]
    want = w * torch.tensor(values, dtype=torch.float64).reshape(shape) + b
    # two roundings of u up to 8, whose slope is at most 1.13; erf itself some units; gain and bias
    # up to 4
    assert_close(got, want, rtol=0, atol=100 * UNIT)


# what autograd does not know  [EQ-DERF] [EQ-DERF-GRAD]
def test_the_slope_integrates_to_the_function():
    x = torch.linspace(-9, 9, 2001, dtype=torch.float64)
    alpha, shift = torch.tensor(0.7).double(), torch.tensor(0.4).double()
    (slope, *_) = gradients.derf_backward(torch.ones_like(x), x, alpha, shift)
    # the trapezoid rule of a smooth bump that is 0 at both ends: exact but for rounding
    assert torch.trapezoid(slope, x).item() == pytest.approx(2.0, rel=1e-12)


def test_it_is_odd_about_its_centre_and_steepest_there():  # [EQ-DERF]
    x, alpha, shift = draw(50), torch.tensor(0.7).double(), torch.tensor(0.4).double()
    centre = -shift / alpha
    above = functional.derf(centre + x, alpha, shift)
    assert_close(functional.derf(centre - x, alpha, shift), -above, rtol=0, atol=20 * UNIT)
    points = torch.cat([centre[None], centre + x])
    slopes = gradients.derf_backward(torch.ones_like(points), points, alpha, shift)[0]
    assert slopes.argmax() == 0
    assert_close(slopes[0], 2 / math.sqrt(math.pi) * alpha)


def test_far_out_it_is_flat_and_finite():
    x = torch.tensor([-math.inf, -1e30, 0.0, 1e30, math.inf])
    one, none = torch.ones(()), torch.zeros(())
    assert functional.derf(x, one, none).tolist() == [-1, -1, 0, 1, 1]
    dx, dalpha, dshift = gradients.derf_backward(torch.ones(3), x[1:4], one, none)
    assert dx.tolist() == pytest.approx([0, 2 / math.sqrt(math.pi), 0])
    assert dalpha == 0
    assert dshift.item() == pytest.approx(2 / math.sqrt(math.pi))


def test_what_does_not_fit_is_refused():
    x, alpha, shift, w, b = operands((5, 4))
    for bad in (
        [w[:3], shift, w, b],
        [alpha, w[:3], w, b],
        [alpha, shift, w[:3]],
        [alpha, shift, w, b[:3]],
    ):
        with pytest.raises(
            RuntimeError, match=r"^derf needs a \w+ that broadcasts to input \(5, 4\)"
        ):
            functional.derf(x, *bad)
    with pytest.raises(TypeError, match=r"^derf needs a tensor as shift, got 0\.0\. Wrap it"):
        functional.derf(x, alpha, 0.0)
    with pytest.raises(NotImplementedError, match=r"^derf needs .* got torch\.int64"):
        functional.derf(torch.arange(4), alpha, shift)


# The layer


@pytest.mark.parametrize(
    ("shape", "first"), [((3, 5, 8), False), ((7, 8), False), ((2, 8, 5, 3), True)]
)
def test_bit_for_bit_the_official_layer(shape, first):  # [EQ-DERF]
    theirs, ours = trained(Official(8, first)), layers.Derf(8, channels_first=first)
    assert all(
        torch.equal(value, Official(8, first).state_dict()[k])
        for k, value in ours.state_dict().items()
    )
    ours.load_state_dict(theirs.state_dict(), strict=True)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    x = draw(*shape, dtype=torch.float32)
    assert torch.equal(ours(x), theirs(x))
    dy = draw(*shape, seed=4, dtype=torch.float32)
    mine = torch.autograd.grad(ours(x), list(ours.parameters()), dy)
    official = torch.autograd.grad(
        theirs(x), [theirs.get_parameter(n) for n, _ in ours.named_parameters()], dy
    )
    for got, want in zip(mine, official, strict=True):
        # sums of at most 240 float32 terms, in two orders
        assert_close(got, want, rtol=1e-5, atol=1e-4)


def test_repr_and_parameters():
    layer = layers.Derf(6, 0.3, 0.1, bias=False, dtype=torch.float64)
    assert repr(layer) == "Derf((6,), bias=False, alpha_init=0.3, shift_init=0.1)"
    assert [name for name, _ in layer.named_parameters()] == ["alpha", "shift", "weight"]


def test_what_a_layer_refuses():
    for value in (math.nan, math.inf, "a", None):
        with pytest.raises(ValueError, match=r"^Derf needs a finite alpha_init, got alpha_init="):
            layers.Derf(4, value)
        with pytest.raises(ValueError, match=r"^Derf needs a finite shift_init, got shift_init="):
            layers.Derf(4, shift_init=value)
    with pytest.raises(RuntimeError, match=r"^Derf needs an input whose last dimensions are"):
        layers.Derf(4)(torch.ones(5, 3))
    with pytest.raises(RuntimeError, match=r"^Derf needs an input whose last dimensions are"):
        layers.Derf(4, channels_first=True)(torch.ones(2, 3, 4))
    with pytest.raises(ValueError, match=r"^Derf needs one number of channels"):
        layers.Derf((3, 4), channels_first=True)
