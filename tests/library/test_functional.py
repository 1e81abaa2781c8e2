"""normlib.functional gives torch's outputs and gradients in float64, and obeys identities."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from normlib import functional
from tests.library.norm_cases import (
    FUNCTIONS,
    SHAPES,
    TORCHS,
    draw,
    output_and_gradients,
)
from tests.tolerances import assert_same_float64

every_function = pytest.mark.parametrize("case", FUNCTIONS, ids=str)


def assert_true(case, x, *params):
    """Output and every gradient are those of the formula, and torch's."""
    grad_output = draw(*x.shape, seed=3)
    ours = output_and_gradients(case.call, grad_output, x, *params)
    for truth in case.truths():
        theirs = output_and_gradients(truth, grad_output, x, *params)
        for got, want in zip(ours, theirs, strict=True):
            assert_same_float64(got, want, terms=x.numel())


# [EQ-BN] [EQ-BN-EVAL] [EQ-LN] [EQ-RMS] [EQ-GN] [EQ-IN] [EQ-WN] [EQ-DYT] [EQ-DYISRU] [EQ-DERF]
# [EQ-ISRU] [EQ-SOFTCAP]
@pytest.mark.parametrize(("case", "shape"), SHAPES, ids=str)
def test_output_and_every_gradient_are_the_formulas_and_torchs(case, shape):
    assert_true(case, *case.tensors(shape))


@pytest.mark.parametrize(
    "name", ["batch_norm", "layer_norm", "rms_norm", "group_norm", "instance_norm"]
)
def test_it_takes_torchs_arguments_in_torchs_order(name):
    ours, theirs = (
        [(p.name, p.default) for p in inspect.signature(getattr(library, name)).parameters.values()]
        for library in (functional, F)
    )
    assert ours == theirs


@every_function
def test_parameters_that_have_a_default_may_be_left_out(case):
    x, *params = case.tensors(case.small)
    taken = inspect.signature(getattr(functional, case.function)).parameters
    needed = sum(taken[name].default is inspect.Parameter.empty for name in case.parameters)
    for count in range(needed, len(params)):
        assert_true(case, x, *params[:count])


LAYOUTS = {
    "transposed": lambda shape: draw(*reversed(shape)).permute(*reversed(range(len(shape)))),
    "strided": lambda shape: draw(*(2 * n for n in shape))[
        tuple(slice(None, None, 2) for _ in shape)
    ],
    "expanded": lambda shape: draw(1, *shape[1:]).expand(shape),
    "constant": lambda shape: torch.full(shape, 3.0, dtype=torch.float64),
    "zero": lambda shape: torch.zeros(shape, dtype=torch.float64),
}


@pytest.mark.parametrize(
    ("case", "layout"),
    [(c, layout) for c in FUNCTIONS for layout in LAYOUTS if layout != "zero" or not c.is_singular],
    ids=str,
)
def test_any_layout_and_constant_input_give_the_true_results(case, layout):
    x = LAYOUTS[layout](case.small)
    assert layout in ("constant", "zero") or not x.is_contiguous()
    assert_true(case, x, *case.draw_parameters(case.small))


def channels_last(*shape):
    return draw(*shape).movedim(1, -1).contiguous().movedim(-1, 1)


FORMATS = {  # of images and volumes
    "contiguous": draw,
    "channels_last": channels_last,
    "transposed": lambda *shape: draw(*shape[:-2], shape[-1], shape[-2]).mT,
    "a part": lambda *shape: torch.cat([draw(*shape), draw(*shape)], -1)[..., shape[-1] :],
}


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize("shape", [(3, 4, 2, 5), (2, 4, 3, 2, 5)], ids=["image", "volume"])
@pytest.mark.parametrize("case", [case for case in TORCHS if case.name != "weight_norm"], ids=str)
def test_an_output_lies_in_memory_as_torchs(case, shape, made):
    x, params = FORMATS[made](*shape), case.draw_parameters(shape)
    assert case.call(x, *params).stride() == case.call_torch(x, *params).stride()


@pytest.mark.parametrize(
    ("case", "empty"),
    [(c, empty) for c in FUNCTIONS for empty in ("batch", "last") if not c.is_singular],
    ids=str,
)
def test_an_empty_input_gives_an_empty_output_and_zero_gradients_for_the_parameters(case, empty):
    shape = (0, *case.small[1:]) if empty == "batch" else (*case.small[:-1], 0)
    x, *params = case.tensors(shape)
    output, dx, *rest = output_and_gradients(case.call, x.clone(), x, *params)
    assert output.shape == dx.shape == shape
    for gradient, parameter in zip(rest, params, strict=True):
        assert torch.equal(gradient, torch.zeros_like(parameter))


STATISTICS = pytest.mark.parametrize("case", [c for c in FUNCTIONS if c.groups], ids=str)


@STATISTICS
def test_no_scale_is_seen_no_shift_where_the_mean_is_taken_off_and_no_gradient_leads_along_them(
    case,
):
    x, *params = case.tensors(case.small)
    tiny = {"eps": 1e-300} if case.has_eps else {}
    run = lambda x: case.call(x, *params, **tiny)  # noqa: E731
    assert_same_float64(run(3 * x), run(x), terms=x.numel())
    _, dx = output_and_gradients(run, draw(*x.shape, seed=3), x)
    across = [dx * x]
    if case.centred:
        assert_same_float64(run(3 * x - 5), run(x), terms=x.numel())
        across.append(dx)
    else:
        assert (run(x + 1) - run(x)).abs().max() > 0.1
    for product in across:
        sums = case.groups(product).sum(1)
        assert_same_float64(sums, torch.zeros_like(sums), terms=10 * x.numel())


@pytest.mark.parametrize("momentum", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
def test_running_statistics_equal_torchs_after_three_steps(norm, momentum):  # [EQ-BN-RUNNING]
    states = {library: (draw(3), draw(3).square()) for library in (functional, F)}
    for step in range(3):
        x = draw(4, 3, 5, seed=step).requires_grad_()
        for library, (mean, var) in states.items():
            getattr(library, norm)(x, mean, var, None, None, True, momentum)
    for got, want in zip(states[functional], states[F], strict=True):
        assert_same_float64(got, want, terms=60)
        assert got.grad_fn is None and not got.requires_grad


# [EQ-BN] [EQ-BN-RUNNING]
def test_the_batch_is_divided_by_the_biased_variance_and_the_buffer_keeps_the_unbiased_one():
    x, mean, var = (
        torch.tensor([[1.0], [3.0]]).double(),
        torch.zeros(1).double(),
        torch.ones(1).double(),
    )
    y = functional.batch_norm(x, mean, var, training=True, momentum=1.0, eps=1e-300)
    assert_close(y.flatten(), torch.tensor([-1.0, 1.0]).double())  # biased variance 1
    assert_close(var, torch.tensor([2.0]).double())  # unbiased variance 2


def test_rms_norms_own_eps_is_torchs():  # [EQ-RMS]
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        # eps outweighs or equals the mean square of most
        x = torch.tensor([1e-4, 3e-4], dtype=dtype)
        ulp = torch.finfo(dtype).eps
        assert_close(functional.rms_norm(x, (2,)), F.rms_norm(x, (2,)), rtol=4 * ulp, atol=0)


@pytest.mark.parametrize("dim", [0, 1, 2, -2, -1])
def test_weight_norm_equals_torch(dim):  # [EQ-WN]
    v, lengths = (
        draw(3, 5, 2),
        {0: (3, 1, 1), 1: (1, 5, 1), 2: (1, 1, 2), -2: (1, 5, 1), -1: (1, 1, 1)},
    )
    ours, theirs = (
        output_and_gradients(
            lambda *t, f=f: f(*t, dim), draw(3, 5, 2, seed=3), v, draw(*lengths[dim], seed=1)
        )
        for f in (functional.weight_norm, torch._weight_norm)
    )
    for got, want in zip(ours, theirs, strict=True):
        assert_same_float64(got, want, terms=30)


def test_weight_norm_gives_the_length_g_and_a_gradient_orthogonal_to_v():  # [EQ-WN]
    v, g = draw(4, 3), draw(4, 1, seed=1).square()
    w, dv, dg = output_and_gradients(functional.weight_norm, draw(4, 3, seed=3), v, g)
    assert_same_float64(w.norm(dim=1, keepdim=True), g, terms=3)
    assert_same_float64((dv * v).sum(1), torch.zeros(4).double(), terms=30)
    assert_same_float64(dg, (draw(4, 3, seed=3) * w / g).sum(1, keepdim=True), terms=30)
    assert_same_float64(functional.weight_norm(v, g[0], None).norm(), g[0, 0], terms=12)
    one = functional.weight_norm(v, g[:1])  # one length for all slices
    assert_same_float64(one.norm(dim=1), g[0].expand(4), terms=3)
