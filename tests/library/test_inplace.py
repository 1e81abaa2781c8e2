"""What follows a layer may write into its output: ReLU(inplace=True), h += x, as after torch's.

Each in-place operation gives the outputs and all gradients of its out-of-place twin after torch's
own layer, or after the curve written out.
"""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from normlib import fused, layers
from tests.library.norm_cases import LAYERS, draw, pair

pytestmark = pytest.mark.usefixtures("operators_at_every_size")
SHAPES = {  # of 1 to 5 dimensions, features last
    1: (6,),
    2: (4, 6),
    3: (2, 3, 6),
    4: (2, 1, 3, 6),
    5: (1, 2, 3, 2, 6),
}
FUSED = {  # layers that have a fused way: how one is made
    "LayerNorm": lambda **o: layers.LayerNorm(6, **o),
    "RMSNorm": lambda **o: layers.RMSNorm(6, eps=1e-3, **o),
    "DyT": lambda **o: layers.DyT(6, **o),
    "DyISRU": lambda **o: layers.DyISRU(6, **o),
}
every_fused = pytest.mark.parametrize("name", FUSED)
OPERATIONS = {  # in place, and the same out of place; h is the layer's output, x its input
    "relu_": (lambda h, x: F.relu(h, inplace=True), lambda h, x: F.relu(h)),
    "ReLU": (lambda h, x: nn.ReLU(inplace=True)(h), lambda h, x: nn.ReLU()(h)),
    "Dropout": (lambda h, x: nn.Dropout(0.5, inplace=True)(h), lambda h, x: nn.Dropout(0.5)(h)),
    "+=": (lambda h, x: h.add_(x), lambda h, x: h + x),
    "mul_": (lambda h, x: h.mul_(2), lambda h, x: h * 2),
    "a part": (
        lambda h, x: h.index_fill_(-1, torch.tensor([0]), 0.5),
        lambda h, x: h.index_fill(-1, torch.tensor([0]), 0.5),
    ),
    "a row": (lambda h, x: _first_doubled(h), lambda h, x: _first_doubled(h.clone())),
}


def _first_doubled(h):
    h[..., :1] *= 2
    return h


every_operation = pytest.mark.parametrize("operation", OPERATIONS)


def filled(module):
    """In float64, every parameter drawn, so that all of them count."""
    module = module.double()
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + 5))
    return module


def outcome(layer, change, shape):
    """Output and all gradients of change after layer."""
    torch.manual_seed(0)  # Dropout's mask
    x = draw(*shape).requires_grad_()
    y = change(layer(x), x)
    return [y.detach(), *torch.autograd.grad(y, [x, *layer.parameters()], draw(*shape, seed=4))]


def test_every_fused_layer_has_a_case():
    fusible = [
        name
        for name in layers.__all__
        if "fused" in inspect.signature(getattr(layers, name)).parameters
    ]
    assert set(FUSED) == set(fusible)


@every_operation
@pytest.mark.parametrize(("case", "layer"), LAYERS, ids=str)
def test_an_operation_in_place_after_a_layer(case, layer, operation):
    in_place, out_of_place = OPERATIONS[operation]
    module, reference = pair(case, layer)
    got = outcome(module, in_place, layer.shape)
    want = outcome(reference, out_of_place, layer.shape)
    for one, other in zip(got, want, strict=True):
        assert_close(one, other, rtol=1e-12, atol=1e-12)


@every_operation
@every_fused
def test_an_operation_in_place_after_a_fused_layer(name, operation):
    in_place, out_of_place = OPERATIONS[operation]
    plain, module = filled(FUSED[name]()), filled(FUSED[name](fused=True))
    for shape in SHAPES.values():
        got = outcome(module, in_place, shape)
        want = outcome(plain, out_of_place, shape)
        for one, other in zip(got, want, strict=True):
            assert_close(one, other, rtol=1e-12, atol=1e-12)


def slow(*values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.mark.parametrize("operation", ["ReLU", *slow("Dropout", "+=", "a row")])  # one of each kind
@every_fused
def test_compiled(name, operation):
    in_place, out_of_place = OPERATIONS[operation]
    module = filled(FUSED[name](fused=True))
    torch.compiler.reset()
    model = lambda x: in_place(module(x), x)  # noqa: E731
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    results = []
    for run, change in ((compiled, lambda y, x: y), (module, out_of_place)):
        torch.manual_seed(0)  # Dropout's mask
        x = draw(*SHAPES[3]).requires_grad_()
        y = change(run(x), x)
        wanted = [x, *module.parameters()]
        results.append([y.detach(), *torch.autograd.grad(y, wanted, draw(*x.shape, seed=4))])
    for one, other in zip(*results, strict=True):
        assert_close(one, other, rtol=1e-12, atol=1e-12)


@every_operation
@every_fused
def test_under_vmap(name, operation):
    in_place, out_of_place = OPERATIONS[operation]
    module = filled(FUSED[name](fused=True))
    batch = draw(3, 4, 6)
    results = []
    for change in (in_place, out_of_place):
        torch.manual_seed(0)  # Dropout's mask
        run = lambda x, change=change: change(module(x), x)  # noqa: E731
        results.append(torch.vmap(run, randomness="same")(batch))
    assert_close(*results, rtol=1e-12, atol=1e-12)


IMAGE_LAYERS = {
    "DyT": lambda **o: layers.DyT(6, channels_first=True, **o),
    "DyISRU": lambda **o: layers.DyISRU(6, channels_first=True, **o),
}
LAYOUTS = {  # of an image (2, 6, 3, 4)
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "a part": lambda x: torch.cat([x, x], 3)[..., 4:],
    "expanded": lambda x: x[:, :, :1, :1].expand(2, 6, 3, 4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", IMAGE_LAYERS)
def test_after_inputs_of_any_layout(name, layout):
    plain = filled(IMAGE_LAYERS[name]())
    module = filled(IMAGE_LAYERS[name](fused=True))
    for in_place, out_of_place in OPERATIONS.values():
        results = []
        for layer, change in ((module, in_place), (plain, out_of_place)):
            torch.manual_seed(0)
            x = LAYOUTS[layout](draw(2, 6, 3, 4)).detach().requires_grad_()
            # in memory as fused's: Dropout draws its mask in the order of memory
            y = change(layer(x).contiguous(), x)
            wanted = [x, *layer.parameters()]
            results.append([y.detach(), *torch.autograd.grad(y, wanted, draw(*y.shape, seed=4))])
        for one, other in zip(*results, strict=True):
            assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUSED)
def test_gradients_that_are_differentiated_again_may_be_written_into(name):
    results = []
    for is_fused, double in ((True, torch.Tensor.mul_), (False, torch.Tensor.mul)):
        module = filled(FUSED[name](fused=is_fused))
        x = draw(4, 6).requires_grad_()
        wanted = [x, *module.parameters()]
        first = torch.autograd.grad(module(x).square().sum(), wanted, create_graph=True)
        doubled = [double(grad, 2) for grad in first]
        total = sum(grad.square().sum() for grad in doubled)
        results.append([*doubled, *torch.autograd.grad(total, wanted, allow_unused=True)])
    for one, other in zip(*results, strict=True):
        if other is None:  # a bias, on which no gradient depends
            assert one is None or not one.any()
        else:
            assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_functions_of_fused():
    x, weight = draw(2, 3, 6), draw(6, seed=1)
    one = torch.tensor([0.7]).double()
    for run, *tensors in (
        (lambda x, w: fused.rms_norm(x, (6,), w), x, weight),
        (lambda x: fused.rms_norm(x, (3, 6)), x),
        (lambda x, w: fused.layer_norm(x, (6,), w), x, weight),
        (fused.dyt, x, one, weight),
        (fused.dyisru, x, one, None, weight),
        (fused.dyt, draw(6), one),
        (fused.dyisru, draw(1)[0], one[0]),
    ):
        leaves = [None if t is None else t.clone().requires_grad_() for t in tensors]
        y = run(*leaves)
        want = 2 * y.detach()
        assert not y._is_view()
        assert torch.equal(y.mul_(2), want)
        y.sum().backward()
