"""Calls, gradients and forbidden means of checks/probes.py, each with its wrong answers."""

import copy
import itertools
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from normcourse import draw
from normcourse.checks.probes import (
    call,
    calls,
    forbid,
    same_gradients,
    unshared,
)
from normcourse.checks.verdict import Slip, exercise, expect, is_value
from normlib import functional, gradients
from tests.course.slip_tables import mixed_up


def softmax(x, scale):
    return torch.softmax(scale * x, -1)


SLIPS = {
    "the sum runs along the row.": lambda x, scale: torch.softmax(scale * x, 0),
    "scale is not used.": lambda x, scale: torch.softmax(x, -1),
}
CASES = [{"x": draw(3, 5), "scale": 0.5}, {"x": draw(2, 4, 7, seed=1), "scale": 2.0}]


@exercise("softmax")
def check(student):
    calls(student, softmax, *CASES, slips=SLIPS)
    slips = {"the divisor is detached.": divisor_detached}
    same_gradients(student, softmax, CASES[0], slips)


def by_hand(x, scale):
    shifted = scale * (x - x.amax(-1, keepdim=True).detach())
    return shifted.exp() / shifted.exp().sum(-1, keepdim=True)


def divisor_detached(x, scale):
    powers = (scale * x).exp()
    return powers / powers.sum(-1, keepdim=True).detach()


def without_grad(x, scale):
    with torch.no_grad():
        return softmax(x, scale)


def half_the_gradient(x, scale):
    return (softmax(x, scale) + softmax(x, scale).detach()) / 2


def first_for_ever():
    kept = []

    def answer(x, scale):
        kept.append(softmax(x, scale))
        return kept[0]

    return answer


ANSWERS = [
    (softmax, "[ok]"),
    (by_hand, "[ok]"),
    (lambda x, scale: torch.softmax(scale * x, 0), "the sum runs along the row."),
    (lambda x, scale: torch.softmax(x, -1), "scale is not used."),
    (
        lambda x, scale: torch.softmax(0.5 * x, -1),
        "for x of shape (2, 4, 7), scale = 2.0 is off by",
    ),
    (
        lambda x, scale: torch.softmax(scale * x, 1),
        "the output for x of shape (2, 4, 7), scale = 2.0 is off",
    ),
    (
        lambda x, scale: softmax(x.view(-1, x.shape[-1]), scale).view_as(x),
        "2.0: your code raised RuntimeError",
    ),
    (lambda x, scale: softmax(x.reshape(15, 1), scale), "the output has shape (15, 1)"),
    (lambda x, scale: softmax(x.mul_(2), scale / 2), "x was changed in place"),
    (without_grad, "no gradient comes back"),
    (lambda x, scale: softmax(x.detach(), scale), "no gradient comes back"),
    (lambda x, scale: torch.tensor(softmax(x, scale).tolist()).double(), "off by"),
    (divisor_detached, "the divisor is detached."),
    (half_the_gradient, "the values are right, but the gradient with respect to x is off by"),
    (first_for_ever(), "every call gives the result of the first one"),
    (lambda x, scale: None, "None (is the return missing?)"),
    (lambda x, scale: softmax(x, scale) + 0j, "the output is complex, expected real numbers"),
    (lambda x, scale: torch.softmax(x, 0) * (scale + 0j), "the output is complex"),
    # the slip of the first case, another mistake in the second: no name says both
    (
        lambda x, scale: torch.softmax(scale * x, 0) if x.dim() == 2 else softmax(x, 1.0),
        "the output is off by up to",
    ),
    # the first result in the first case, and nothing to compare it with
    (lambda x, scale: torch.softmax(scale * x, 1) + 0 * x.view(3, 5), "raised RuntimeError"),
]


@pytest.mark.parametrize(("answer", "piece"), ANSWERS, ids=itertools.count())
def test_each_answer_is_judged_by_two_calls_and_its_gradients(answer, piece):
    assert piece in check(answer)


def test_a_missing_gradient_is_named():
    @exercise("product")
    def check_product(student):
        same_gradients(student, torch.mul, {"x": draw(3), "y": draw(3, seed=1)})

    assert "no gradient reaches y" in check_product(lambda x, y: x * y.detach())
    assert check_product(lambda x, y: y * x).startswith("[ok]")


def test_one_result_shows_nothing_for_ever():
    @exercise("sign")
    def check_sign(student):
        calls(student, torch.sign, {"x": draw(3)}, {"x": draw(2, 5)})

    def in_float32(x):
        return x.sign().float()

    def in_float32_once(x):
        if x.dim() == 2:
            raise KeyError("shape")
        return x.sign().float()

    for student in (in_float32, in_float32_once):
        assert "the output has dtype torch.float32" in check_sign(student)
    kept = draw(3).sign()
    assert "every call gives the result of the first one" in check_sign(lambda x: kept)


def test_one_case_is_refused():
    with pytest.raises(ValueError, match="at least two cases, got 1"):
        calls(softmax, softmax, CASES[0])


def test_the_parts_of_a_result_are_compared_one_by_one():
    def both(x):
        return x.mean(), x.var()

    @exercise("two parts")
    def check_both(student):
        slips = {"var: the biased one is asked for.": lambda x: (x.mean(), x.var(correction=0))}
        calls(student, both, {"x": draw(3)}, {"x": draw(2, 5)}, slips=slips, what=("mean", "var"))

    assert check_both(both).startswith("[ok]")
    assert "var: the biased one" in check_both(lambda x: (x.mean(), x.var(correction=0)))
    assert "mean is off by" in check_both(lambda x: (x.mean() + 1, x.var()))
    assert "expected a tuple (mean, var)" in check_both(lambda x: x.mean())


def test_a_slip_that_is_wrong_earlier_is_not_named():
    def both(x):
        return x.mean(), x.var()

    @exercise("two parts")
    def check_both(student):
        slips = {"mean: no division.": lambda x: (x.sum(), 2 * x.var())}
        calls(student, both, {"x": draw(3)}, {"x": draw(2, 5)}, slips=slips, what=("mean", "var"))

    assert "mean: no division" in check_both(lambda x: (x.sum(), x.var()))
    assert "var is off by" in check_both(lambda x: (x.mean(), 2 * x.var()))
    # the sum in the first case alone
    assert "mean is off by" in check_both(lambda x: (x.sum() if x.dim() == 1 else x[0, 0], x.var()))


def net_of_two():
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def test_a_copy_shares_nothing():
    @exercise("copy")
    def check_copy(student):
        net = net_of_two()
        unshared(net, student(net))

    def tied(net):
        copied = copy.deepcopy(net)
        copied[0].weight = net[0].weight
        return copied

    def with_its_buffer(net):
        copied = copy.deepcopy(net)
        copied[1].running_var = net[1].running_var
        return copied

    assert "shares 0.weight" in check_copy(tied)
    assert "shares 1.running_var" in check_copy(with_its_buffer)
    assert "shares 0.weight" in check_copy(lambda net: net)
    assert check_copy(copy.deepcopy).startswith("[ok]")


@pytest.mark.parametrize(
    "given",
    [[1.0, 2.0], [draw(2)], {"w": draw(2)}, draw(2).numpy()],
    ids=["list", "list of tensors", "dict", "array"],
)
def test_a_container_that_the_student_changes_is_named(given):
    @exercise("keep")
    def check_keep(student):
        call(student, gradients=given)

    def spoil(values):
        key = "w" if isinstance(values, dict) else 0
        values[key] = values[key] * 2

    assert "gradients was changed in place" in check_keep(spoil)
    assert check_keep(lambda values: None).startswith("[ok]")


def autograd_by_function(x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(x.square().sum(), x)[0]


def autograd_by_method(x):
    x = x.clone().requires_grad_()
    x.square().sum().backward()
    return x.grad


def autograd_by_backward(x):
    x = x.clone().requires_grad_()
    torch.autograd.backward(x.square().sum())
    return x.grad


def autograd_by_func(x):
    return torch.func.grad(lambda t: t.square().sum())(x)


def autograd_forward(x):
    ones = torch.ones_like(x)
    return torch.func.jvp(torch.square, (x,), (ones,))[1]


# torch's own formulas for forward mode use torch.jit.script
FORWARD_MODE = pytest.mark.filterwarnings(
    "ignore:.torch.jit.script. is deprecated:DeprecationWarning"
)

WAYS = [
    (lambda x: 2 * x, "[ok]"),
    (autograd_by_function, "without autograd"),
    (autograd_by_method, "without autograd"),
    (autograd_by_backward, "without autograd"),
    (autograd_by_func, "without autograd"),
    (autograd_forward, "without autograd"),
    (lambda x: 2 * x + 0 * torch.softmax(x, -1), "without softmax"),
    (lambda x: 2 * x + 0 * F.softmax(x, -1), "without softmax"),
    (lambda x: 2 * x + 0 * x.softmax(-1), "without softmax"),
    (lambda x: 2 * x + 0 * torch.nn.LayerNorm(5, dtype=x.dtype)(x), "without layer_norm"),
    (
        lambda x: 2 * x + 0 * torch.native_layer_norm(x, (5,), None, None, 1e-5)[0],
        "without layer_norm",
    ),
    (lambda x: 2 * x + 0 * F.rms_norm(x, (5,)), "without rms_norm"),
    (lambda x: 2 * x + 0 * functional.softcap(x, 1.0), "without normlib"),
    (lambda x: 2 * x + 0 * torch.compile(softmax, backend="eager")(x, 1.0), "without softmax"),
    (lambda x: 2 * x + 0 * torch.compile(fullgraph=True)(functional.softcap)(x, 1.0), "normlib"),
]


@FORWARD_MODE
@pytest.mark.parametrize(("answer", "piece"), WAYS, ids=itertools.count())
def test_what_the_page_forbids_is_refused(answer, piece):
    @exercise("no other way")
    def check_ways(student):
        means = ("autograd", "normlib", "softmax", "layer_norm", "rms_norm")
        student = forbid(student, *means)
        expect(student(draw(5)), 2 * draw(5))

    assert piece in check_ways(answer)


@pytest.mark.parametrize("word", ["gradients", "normlib.gradient", "jacobian", "Softmax"])
def test_a_word_that_would_forbid_nothing_is_an_error(word):
    with pytest.raises(ValueError, match=rf"^forbid knows no '{word}'\. Pass \"autograd\""):
        forbid(softmax, "autograd", word)


def test_a_room_of_the_library_is_forbidden_and_no_other():
    capped = forbid(lambda x: functional.softcap(x, 1.0), "normlib.gradients")
    assert capped(draw(5)).shape == (5,)
    student = forbid(lambda x: gradients.softcap_backward(x, x, 1.0), "normlib.gradients")
    with pytest.raises(Slip, match=r"without normlib\.gradients"):
        student(draw(5))


def test_a_stub_that_is_watched_is_still_a_stub():
    def stub(x, scale):
        raise NotImplementedError

    @exercise("softmax")
    def check_forbidden(student):
        calls(forbid(student, "softmax"), softmax, *CASES)

    assert "not attempted yet" in check_forbidden(stub)


def test_watching_an_answer_leaves_the_compiler_unloaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    compiles = forbid(lambda x: torch.compile(softmax)(x, 1.0), "relu")
    compiles(draw(5))
    assert "torch._dynamo" not in sys.modules


@exercise("two slips of one value")
def check_mixed(student):
    expect(student, 4.0, {"twice": 8.0, "cubed": 2.0**3, "nothing wrong": 4})


def test_slips_of_one_value_are_found():
    assert mixed_up(check_mixed, 4.0) == [("right", "nothing wrong"), ("twice", "cubed")]
    assert mixed_up(check, softmax) == []


def test_whether_a_value_fits():
    assert is_value(2.0, 2) and not is_value(2.0, 3)
