"""Second derivatives, torch.func and torch.compile work on the functions and on the layers."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from normlib import functional, layers
from tests.library.norm_cases import NORMS, SMALL, apply, draw, parameters
from tests.tolerances import assert_same_float64


@pytest.mark.parametrize("norm", NORMS)
def test_first_and_second_derivatives_are_right(norm):
    inputs = [t.requires_grad_() for t in (draw(*SMALL[norm]), *parameters(norm, SMALL[norm]))]
    assert gradcheck(lambda *t: apply(functional, norm, *t), inputs)
    assert gradgradcheck(lambda *t: apply(functional, norm, *t), inputs)


def test_first_and_second_derivatives_of_weight_norm_are_right():
    inputs = (draw(3, 2).requires_grad_(), draw(3, 1, seed=1).requires_grad_())
    assert gradcheck(functional.weight_norm, inputs) and gradgradcheck(
        functional.weight_norm, inputs
    )


@pytest.mark.parametrize("norm", NORMS)
def test_vmap_equals_a_loop(norm):
    x, params = draw(3, *SMALL[norm]), parameters(norm, SMALL[norm])
    run = lambda x: apply(functional, norm, x, *params)  # noqa: E731
    assert_same_float64(torch.vmap(run)(x), torch.stack([run(one) for one in x]), terms=x.numel())


# torch's own formulas for forward mode use torch.jit.script
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("norm", NORMS)
def test_grad_jacrev_and_jvp_equal_torchs(norm):
    x, params = draw(*SMALL[norm]), parameters(norm, SMALL[norm])
    results = []
    for library in (functional, F):
        run = lambda x, library=library: apply(library, norm, x, *params)  # noqa: E731
        squares = torch.func.grad(lambda x, run=run: run(x).square().sum())(x)
        tangent = torch.func.jvp(run, (x,), (draw(*x.shape, seed=4),))[1]
        results.append([squares, tangent, torch.func.jacrev(run)(x)])
    for got, want in zip(*results, strict=True):
        assert_same_float64(got, want, terms=x.numel())


LAYERS = {  # the 2d classes share the 1d classes' forward
    "BatchNorm1d": (lambda: layers.BatchNorm1d(3), (4, 3)),
    "BatchNorm1d average": (lambda: layers.BatchNorm1d(3, momentum=None), (4, 3)),
    "LayerNorm": (lambda: layers.LayerNorm(5), (2, 5)),
    "RMSNorm": (lambda: layers.RMSNorm(5), (2, 5)),
    "GroupNorm": (lambda: layers.GroupNorm(2, 4), (2, 4, 3)),
    "InstanceNorm1d": (
        lambda: layers.InstanceNorm1d(3, affine=True, track_running_stats=True),
        (2, 3, 4),
    ),
}


def train_then_evaluate(layer, run, shape):
    """Outputs, input gradients,
    parameter gradients and buffers of three steps and an evaluation.
    """
    results = []
    for step in range(4):
        if step == 3:
            layer.eval()
        x = draw(*shape, seed=step).requires_grad_()
        y = run(x)
        y.backward(draw(*shape, seed=9))
        results += [y.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())]
        results += [buffer.clone() for buffer in layer.buffers()]
    return results


@pytest.mark.parametrize("name", LAYERS)
def test_compiled_in_one_graph_it_gives_the_same_results_and_buffers(name):
    torch.compiler.reset()  # what other cases compiled counts towards dynamo's limit otherwise
    make, shape = LAYERS[name]
    plain, layer = make().double(), make().double()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    got, want = (
        train_then_evaluate(layer, compiled, shape),
        train_then_evaluate(plain, plain, shape),
    )
    for one, other in zip(got, want, strict=True):
        # the same operations in the same order, some fused
        assert_close(one, other, rtol=1e-13, atol=1e-13)
