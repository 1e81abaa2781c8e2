"""normlib.fused under second derivatives, torch.func, forward mode and torch.compile.

And its layers, and its dispatch.
"""

import copy
import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.testing import assert_close

from normlib import functional, fused, gradients, layers
from normlib.fused import dispatch
from tests.library.norm_cases import draw, output_and_gradients
from tests.tolerances import assert_rounded_once

pytestmark = pytest.mark.usefixtures("operators_at_every_size")
ONE = torch.tensor([0.7]).double()
CASES = {  # call, its tensors
    "layer_norm": (
        lambda lib, x, w, b: lib.layer_norm(x, (4,), w, b, 1e-3),
        (draw(3, 4), draw(4), draw(4)),
    ),
    "rms_norm": (lambda lib, x, w: lib.rms_norm(x, (4,), w, 1e-3), (draw(3, 4), draw(4, seed=1))),
    "rms_norm 2": (lambda lib, x: lib.rms_norm(x, (3, 4)), (draw(2, 3, 4),)),
    "dyt": (lambda lib, *t: lib.dyt(*t, 2.0), (draw(3, 4), ONE, draw(4, seed=1), draw(4, seed=2))),
    "dyt channels": (lambda lib, *t: lib.dyt(*t), (draw(2, 3, 4), ONE, draw(3, 1, seed=1))),
    "dyisru": (lambda lib, *t: lib.dyisru(*t), (draw(3, 4), ONE, draw(4, seed=1), draw(4, seed=2))),
    "dyisru bias": (
        lambda lib, x, c, b: lib.dyisru(x, c, None, b, 2.0),
        (draw(3, 4), ONE, draw(4, seed=2)),
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


def case(name, library):
    call, tensors = CASES[name]
    return lambda *t: call(library, *t), [t.clone() for t in tensors]


@every_case
def test_first_second_and_third_derivatives_are_right(name):
    run, tensors = case(name, fused)
    inputs = [t.requires_grad_() for t in tensors]
    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)
    # torch's own function, with torch's third derivative: see the test below
    if name == "layer_norm":
        return
    results = []
    for library in (fused, functional):
        value = (case(name, library)[0](*inputs) * draw(*tensors[0].shape, seed=8)).sum()
        for _ in range(2):
            grads = torch.autograd.grad(value, inputs, create_graph=True, materialize_grads=True)
            value = sum(grad.square().sum() for grad in grads)
        # 0 in an unused bias
        results.append(torch.autograd.grad(value, inputs, materialize_grads=True))
    for got, want in zip(*results, strict=True):
        # against the largest: derivatives grow with powers of 1 / rms
        assert_close(got, want, rtol=0, atol=1e-9 * want.abs().max().item())


def test_torchs_layer_norm_has_a_wrong_third_derivative_and_functionals_is_right():
    """The docstring of fused.layer_norm says so: this turns red when torch mends it."""
    x, v, d, w = (draw(3, 4, seed=1), draw(3, 4, seed=2), draw(3, 4, seed=3), draw(4))

    def second(norm, x):
        x = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(
            (norm(x, (4,), w, None, 1e-3) * v).sum(), x, create_graph=True
        )
        return x, torch.autograd.grad(first.square().sum(), x, create_graph=True)[0]

    relative_error, step = {}, 1e-5
    for library in (fused, functional):
        above, below = (second(library.layer_norm, x + sign * step * d)[1] for sign in (1, -1))
        truth = ((above - below) * d).sum().item() / (2 * step)  # good to some step^2
        at, h = second(library.layer_norm, x)
        third = (torch.autograd.grad((h * d).sum(), at)[0] * d).sum().item()
        relative_error[library] = abs(third / truth - 1)
    assert relative_error[functional] < 1e-6
    assert relative_error[fused] > 0.1


@every_case
def test_second_derivatives_in_some_arguments_only(name):
    for place in range(len(CASES[name][1])):
        results = []
        for library in (fused, functional):
            run, tensors = case(name, library)
            one = tensors[place].requires_grad_()
            (grad,) = torch.autograd.grad(run(*tensors).square().sum(), one, create_graph=True)
            results.append(torch.autograd.grad(grad.square().sum(), one))
        assert_close(*results, rtol=1e-10, atol=1e-10)


# torch's own formulas for forward mode use torch.jit.script
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@every_case
def test_vmap_func_and_forward_mode_give_what_functional_gives(name):
    (ours, tensors), (theirs, _) = case(name, fused), case(name, functional)
    x, *params = tensors
    batch = torch.stack([x, x * 2, -x])
    tangent = draw(*x.shape, seed=7)
    transforms = {
        "vmap": lambda run: torch.vmap(lambda v: run(v, *params))(batch),
        "per sample": lambda run: torch.vmap(
            torch.func.grad(lambda v: run(v, *params).square().sum())
        )(batch),
        "jvp": lambda run: torch.func.jvp(lambda v: run(v, *params), (x,), (tangent,))[1],
        "hessian": lambda run: torch.func.hessian(lambda v: run(v, *params).square().sum())(x),
    }
    for transform in transforms.values():
        assert_close(transform(ours), transform(theirs), rtol=1e-12, atol=1e-12)
    for place, tensor in enumerate(tensors):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(tensor, draw(*tensor.shape, seed=7))
            args = [*tensors[:place], dual, *tensors[place + 1 :]]
            got, want = (forward_ad.unpack_dual(run(*args)).tangent for run in (ours, theirs))
            assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(  # one with a mean and one with parameters of another shape
    "name",
    [
        pytest.param(name, marks=[] if name in ("layer_norm", "dyt channels") else pytest.mark.slow)
        for name in CASES
    ],
)
def test_compiled_in_one_graph(name):
    torch.compiler.reset()
    run, tensors = case(name, fused)
    dy = draw(*tensors[0].shape, seed=5)
    for dynamic in (False, True):
        compiled = torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for got, want in zip(
            output_and_gradients(compiled, dy, *tensors),
            output_and_gradients(run, dy, *tensors),
            strict=True,
        ):
            assert_close(got, want, rtol=1e-13, atol=1e-13)


NORM = (draw(2, 3, 4), draw(4), None, 1, 1e-3, False)
CURVE = (draw(2, 3, 4), ONE, draw(3, 1), draw(4), 2.0)
OPERATORS = {
    "norm": ("norm", NORM),
    "norm_backward": (
        "norm_backward",
        (draw(2, 3, 4), *NORM, draw(0), draw(6), [True, True, False]),
    ),
    "norm_backward dw": (
        "norm_backward",
        (draw(2, 3, 4), *NORM, draw(0), draw(6), [False, True, False]),
    ),
    "tanh": ("curve", (*CURVE, "tanh")),
    "isru backward": ("curve_backward", (draw(2, 3, 4), *CURVE, "isru", [True] * 4)),
    "isru backward dx": (
        "curve_backward",
        (draw(2, 3, 4), *CURVE, "isru", [True, False, False, False]),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_what_they_declare(name):
    operator, args = OPERATORS[name]
    args = [
        a.clone().requires_grad_(a.numel() > 0) if isinstance(a, torch.Tensor) else a for a in args
    ]
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(getattr(torch.ops.normlib, operator).default, args, test_utils=tests)


@pytest.mark.parametrize(
    "mode", [torch.inference_mode, torch.no_grad], ids=["inference", "no_grad"]
)
@every_case
def test_without_gradients_under_autocast_and_on_meta(name, mode):
    run, tensors = case(name, fused)
    with mode():
        assert_close(run(*tensors), case(name, functional)[0](*tensors), rtol=1e-13, atol=1e-13)
    single = [t.float() for t in tensors]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(run(*single), case(name, functional)[0](*single), rtol=1e-5, atol=1e-5)
    on_meta = run(*(t.to("meta") for t in tensors))
    assert on_meta.shape == tensors[0].shape and on_meta.device.type == "meta"


@every_case
def test_tensors_of_inference_mode(name):
    """Each argument in turn learns, and the others come from a frozen part of the model."""
    run, tensors = case(name, fused)
    with torch.inference_mode():
        frozen = [tensor.clone() for tensor in tensors]
    for place in range(len(tensors)):
        results = []
        for others in (frozen, tensors):
            args = [*others[:place], tensors[place].detach().requires_grad_(), *others[place + 1 :]]
            (grad,) = torch.autograd.grad(run(*args).square().sum(), args[place], create_graph=True)
            results.append(torch.autograd.grad(grad.square().sum(), args[place])[0])
        assert torch.equal(*results)


CHANGED = {  # what learns, and what may be changed before the backward: its values are not read
    "rms_norm": ([1], [1]),
    "dyt": ([0, 1, 2, 3], [3]),
    "dyt channels": ([2], [2]),
    "dyisru": ([2, 3], [2, 3]),
    "dyisru bias": ([0, 1, 2], [2]),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_backward_does_not_read_may_change_before_it(name):
    learning, changed = CHANGED[name]
    grads = []
    for changes in (False, True):
        run, tensors = case(name, fused)
        wanted = [tensors[place].requires_grad_() for place in learning]
        y = run(*tensors)
        with torch.no_grad():
            for place in changed if changes else ():
                tensors[place].fill_(torch.nan)
        grads.append(torch.autograd.grad(y, wanted, draw(*y.shape, seed=5)))
    assert all(map(torch.equal, *grads))


def test_what_a_backward_reads_may_not_change_before_it():
    for name in ("rms_norm", "dyt", "dyisru"):
        run, tensors = case(name, fused)
        y = run(*(tensor.requires_grad_() for tensor in tensors))
        with torch.no_grad():
            tensors[-1 if name == "rms_norm" else 2].add_(1)  # the weight
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@every_case
def test_fx_records_one_call(name):
    run, tensors = case(name, fused)

    class Model(torch.nn.Module):
        def forward(self, x):
            return run(x, *tensors[1:])

    traced = torch.fx.symbolic_trace(Model())
    calls = [node for node in traced.graph.nodes if node.op == "call_function"]
    assert [node.target for node in calls] == [getattr(fused, name.split()[0])]
    assert torch.equal(traced(tensors[0]), run(*tensors))


# Layers

LAYERS = {
    "LayerNorm": (lambda **o: layers.LayerNorm(6, **o), (5, 6)),
    "RMSNorm": (lambda **o: layers.RMSNorm((3, 2), eps=1e-3, **o), (5, 3, 2)),
    "DyT": (lambda **o: layers.DyT(6, scale=2.0, **o), (5, 6)),
    "DyT channels": (lambda **o: layers.DyT(6, bias=False, channels_first=True, **o), (2, 6, 3, 4)),
    "DyISRU": (lambda **o: layers.DyISRU(6, **o), (5, 6)),
    "DyISRU channels": (lambda **o: layers.DyISRU(6, channels_first=True, **o), (2, 6, 3)),
}


def results(module, run, shape):
    x = draw(*shape).requires_grad_()
    y = run(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], draw(*shape, seed=4))]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_with_fused(name, monkeypatch):
    make, shape = LAYERS[name]
    plain, module = make().double(), make(fused=True).double()
    with torch.no_grad():
        for seed, parameter in enumerate(plain.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + 5))
    module.load_state_dict(plain.state_dict(), strict=True)
    plain.load_state_dict(module.state_dict(), strict=True)
    assert not plain.fused and "fused" not in repr(plain)
    assert repr(module).replace(", fused=True", "") == repr(plain) != repr(module)
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    want = results(plain, plain, shape)
    twins = [copy.deepcopy(module), pickle.loads(pickle.dumps(module))]
    for got in (
        results(m, r, shape)
        for m, r in [(module, module), (module, compiled), *((t, t) for t in twins)]
    ):
        for one, other in zip(got, want, strict=True):
            assert_close(one, other, rtol=1e-12, atol=1e-12)
    called = []
    function = {"L": "layer_norm", "R": "rms_norm", "DyT": "dyt", "DyI": "dyisru"}
    function = function.get(name[0]) or function[name[:3]]
    monkeypatch.setattr(fused, function, lambda *a: called.append(a) or a[0])
    module(draw(*shape)), plain(draw(*shape))
    assert len(called) == 1
    if name[0] == "D":
        assert module.rescaled(3.0).fused and not plain.rescaled(3.0).fused


# The dispatch to the kernels

INTERPRETED = """
import torch
from tests.library.norm_cases import draw, output_and_gradients
from tests.tolerances import assert_rounded_once
from torch.testing import assert_close
from normlib import functional, fused
from normlib.fused import dispatch, operators
dispatch._on_gpu = lambda tensor: True
operators.SMALL = -1
layer_norm = lambda lib: lambda x, w, b: (
    operators.layer_norm(x, w, b, 2, 1e-3) if lib is fused
    else lib.layer_norm(x, (3, 4), w, b, 1e-3))
c = torch.tensor(0.7).double()
for run, *tensors in (
    (layer_norm, draw(2, 3, 4), draw(3, 4), draw(3, 4, seed=1)),
    (lambda lib: lambda x, w: lib.rms_norm(x, (4,), w, 1e-3), draw(5, 3, 8)[..., ::2], draw(4)),
    (lambda lib: lambda x: lib.rms_norm(x, (4,), None, 1e-3), draw(0, 4)),
    (lambda lib: lambda *t: lib.dyt(*t, 2.0), draw(3, 4), c, draw(4), draw(4, seed=1)),
    (lambda lib: lambda *t: lib.dyisru(*t), draw(2, 4, 3), c, draw(4, 1), draw(4, 1)),
    (lambda lib: lambda x, c: lib.dyisru(x, c, scale=2.0), draw(2, 3), c),
):
    dy = draw(*tensors[0].shape, seed=9)
    got, want = (  # doubled in place, which a view would refuse
        output_and_gradients(lambda *t: run(lib)(*t).mul_(2), dy, *tensors)
        for lib in (fused, functional)
    )
    for one, other in zip(got, want, strict=True):
        assert_close(one, other, rtol=1e-12, atol=1e-12)
"""


@pytest.mark.slow
def test_the_way_to_the_kernels_in_tritons_interpreter():
    pytest.importorskip("triton")
    paths = os.pathsep.join(sys.path)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    run = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["tanh", "isru"])
def test_gradients_of_a_half_gain_for_channels_are_rounded_once(kind, half, monkeypatch):
    """Its gradient is a sum over positions, and the kernels sum over rows alone.

    [EQ-DYT-GRAD] [EQ-DYISRU-GRAD]
    """
    pytest.importorskip("triton")
    monkeypatch.setattr("normlib.fused.dispatch._on_gpu", lambda tensor: True)
    x, dy = (draw(3, 2, 5, 7, seed=seed, dtype=half) - 1 for seed in (0, 1))
    gain, shift = (draw(2, 1, 1, seed=seed, dtype=half) for seed in (2, 3))
    parameter = torch.tensor([0.75], dtype=half)
    got = dispatch.curve_backward(dy, x, parameter, gain, shift, 2.0, kind, [True] * 4)[2:]
    backward = {"tanh": gradients.dyt_backward, "isru": gradients.dyisru_backward}[kind]
    wide = [tensor.double() for tensor in (dy, x, parameter, gain, shift)]
    want = backward(*wide, 2.0)[2:]
    # of each term a few roundings of float32, and of their sum; scale bounds the curve
    error = 32 * torch.finfo(torch.float32).eps * 2.0 * wide[0].abs().sum()
    for one, other in zip(got, want, strict=True):
        assert_rounded_once(one, other, error)


def test_without_triton_the_error_names_the_fix(monkeypatch):
    monkeypatch.setattr("normlib.fused.dispatch._on_gpu", lambda tensor: True)
    # importing it raises ImportError
    monkeypatch.setitem(sys.modules, "normlib.kernels.rows", None)
    with pytest.raises(
        ImportError, match=r"needs triton for tensors on a GPU\. Install it, or use normlib"
    ):
        fused.rms_norm(draw(2, 3), (3,))
