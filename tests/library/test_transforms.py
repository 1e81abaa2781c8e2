"""Second derivatives, torch.func and torch.compile work on the functions and on the layers."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from tests.library.norm_cases import FIRST_LAYERS, FUNCTIONS, LayerCase, draw
from tests.tolerances import assert_same_float64

every_function = pytest.mark.parametrize("case", FUNCTIONS, ids=str)


@every_function
def test_first_and_second_derivatives_are_right(case):
    inputs = [tensor.requires_grad_() for tensor in case.tensors(case.small)]
    assert gradcheck(case.call, inputs)
    assert gradgradcheck(case.call, inputs)


@every_function
def test_vmap_equals_a_loop(case):
    x, params = draw(3, *case.small), case.draw_parameters(case.small)
    run = lambda x: case.call(x, *params)  # noqa: E731
    assert_same_float64(torch.vmap(run)(x), torch.stack([run(one) for one in x]), terms=x.numel())


@pytest.mark.parametrize("case", [case for case in FUNCTIONS if case.parameters], ids=str)
def test_vmap_over_the_parameters_equals_a_loop(case):
    x, first, *others = case.tensors(case.small)
    many = torch.stack([first, 2 * first, 3 * first])
    run = lambda value: case.call(x, value, *others)  # noqa: E731
    loop = torch.stack([run(value) for value in many])
    assert_same_float64(torch.vmap(run)(many), loop, terms=x.numel())


# torch's own formulas for forward mode use torch.jit.script
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@every_function
def test_grad_both_jacobians_and_jvp_are_the_formulas_and_torchs(case):
    x, params = draw(*case.small), case.draw_parameters(case.small)
    results = []
    # torch's weight norm has no forward mode
    truths = case.truths() if case.name != "weight_norm" else [case.formula]
    for function in (case.call, *truths):
        run = lambda x, function=function: function(x, *params)  # noqa: E731
        squares = torch.func.grad(lambda x, run=run: run(x).square().sum())(x)
        tangent = torch.func.jvp(run, (x,), (draw(*x.shape, seed=4),))[1]
        results.append([squares, tangent, torch.func.jacrev(run)(x)])
    results.append([*results[0][:2], torch.func.jacfwd(lambda x: case.call(x, *params))(x)])
    for others in results[1:]:
        for got, want in zip(results[0], others, strict=True):
            assert_same_float64(got, want, terms=x.numel())


def train_then_evaluate(layer, run, shape):
    """Outputs, gradients and buffers of three steps and an evaluation."""
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


AVERAGE = LayerCase("BatchNorm1d", 4, momentum=None, shape=(7, 4))
OTHERS = [layer for _, layer in FIRST_LAYERS if layer.name[-2:] != "2d"]  # as the 1d classes


# the average has the most state
@pytest.mark.parametrize(
    "layer", [AVERAGE, *(pytest.param(layer, marks=pytest.mark.slow) for layer in OTHERS)], ids=str
)
def test_compiled_in_one_graph_it_gives_the_same_results_and_buffers(layer):
    torch.compiler.reset()  # what other cases compiled counts towards dynamo's limit otherwise
    plain, module = layer.make().double(), layer.make().double()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    got = train_then_evaluate(module, compiled, layer.shape)
    want = train_then_evaluate(plain, plain, layer.shape)
    for one, other in zip(got, want, strict=True):
        # the same operations in the same order, some fused
        assert_close(one, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("case", "layer"), [row for row in FIRST_LAYERS if not list(row[1].make().buffers())], ids=str
)
def test_gradients_of_single_samples_add_up_and_are_differentiated_again(case, layer):
    module, x = layer.make().double(), draw(*layer.shape)
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + 5))
    parameters = dict(module.named_parameters())

    def run(x, *values):
        given = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(module, given, (x,))

    def loss(values, sample):
        return run(sample[None], *values).square().sum()

    values = tuple(parameters.values())
    each = torch.vmap(torch.func.grad(loss), (None, 0))(values, x)
    whole = torch.autograd.grad(module(x).square().sum(), values)
    for mine, total in zip(each, whole, strict=True):
        assert_close(mine.sum(0), total)
    assert gradgradcheck(run, [x.requires_grad_(), *values])
