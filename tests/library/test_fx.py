"""torch.fx, inference mode, and tensors that change between forward and backward.

All as with torch.nn's layers.
"""

import pytest
import torch
from torch import fx, nn
from torch.testing import assert_close

from normlib import functional, layers
from tests.library.norm_cases import FIRST_LAYERS, LAYERS, LayerCase, draw

FUSED = LayerCase("RMSNorm", 6, fused=True, shape=(4, 6))
EVERY = [*(layer for _, layer in LAYERS), FUSED]
KINDS = [*(layer for _, layer in FIRST_LAYERS), FUSED]


def reads_rank(case):
    return case.name.startswith(("BatchNorm", "InstanceNorm")) or case is FUSED


def made(case, library=layers):
    layer = case.make(library)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + 3))
    return layer, draw(*case.shape, dtype=torch.float32)


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_inside_a_traced_model_a_layer_is_one_node(case):
    layer, x = made(case)
    model = nn.Sequential(nn.Identity(), nn.Sequential(layer))
    traced = fx.symbolic_trace(model)
    nodes = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    assert nodes == ["0", "1.0"]
    for training in (True, False):
        assert torch.equal(traced.train(training)(x), model.train(training)(x))
    if case.name.startswith("BatchNorm") and layer.num_batches_tracked is not None:
        # the model's and the traced one's; tracing itself counts none
        assert layer.num_batches_tracked == 2


# all are deprecated; layers/__init__.py says which of them takes these layers
@pytest.mark.filterwarnings("ignore:.torch.jit.(script|trace):DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("case", KINDS, ids=str)
def test_torch_jit_traces_a_layer_and_refuses_to_script_it(case):
    layer, x = made(case)
    traced = torch.jit.trace(layer, (x,), check_trace=False)
    fresh = made(case)[0]
    assert torch.equal(traced(x), fresh(x))
    with pytest.raises((RuntimeError, torch.jit.frontend.NotSupportedError)):
        torch.jit.script(layer)


@pytest.mark.parametrize("case", [case for case in EVERY if not reads_rank(case)], ids=str)
def test_a_layer_alone_is_traced_too(case):
    layer, x = made(case)
    traced = fx.symbolic_trace(layer)
    assert torch.equal(traced(x), layer(x))
    with pytest.raises((RuntimeError, ValueError), match=r" needs .*, got "):
        traced(torch.ones([size + 1 for size in x.shape]))  # the checks are part of the graph


@pytest.mark.parametrize("case", [case for case in KINDS[:-1] if reads_rank(case)], ids=str)
def test_where_torchs_layer_cannot_be_traced_alone_ours_raises_the_same(case):
    for library in (nn, layers):
        layer, _ = made(case, library)
        with pytest.raises(fx.proxy.TraceError):
            fx.symbolic_trace(layer)


def test_a_function_is_one_node():
    def model(x, weight):
        return functional.rms_norm(x, (6,), weight) + functional.softcap(x, cap=2.0)

    traced = fx.symbolic_trace(model)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets[:2] == [functional.rms_norm, functional.softcap]
    x, w = draw(4, 6), draw(6, seed=1)
    assert torch.equal(traced(x, w), model(x, w))


@pytest.mark.parametrize("case", KINDS[:-1], ids=str)
def test_an_input_made_in_inference_mode_before_layers_that_learn(case):
    layer, x = made(case)
    with torch.inference_mode():
        frozen = x.clone()
    frozen_output = layer(frozen)
    frozen_output.sum().backward()
    got = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    layer(x).sum().backward()
    for mine, parameter in zip(got, layer.parameters(), strict=True):
        assert_close(mine, parameter.grad)


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_a_weight_changed_before_backward_is_an_error(case):
    layer, x = made(case)
    x.requires_grad_()
    y = layer(x)
    with torch.no_grad():
        next(layer.parameters()).mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


class Marked(torch.Tensor):
    """A subclass of Tensor: torch's functions keep it."""


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_a_subclass_of_tensor_stays_one(name):
    x = draw(4, 6).as_subclass(Marked)
    for library in (functional, nn.functional):
        assert type(getattr(library, name)(x, (6,))) is Marked
