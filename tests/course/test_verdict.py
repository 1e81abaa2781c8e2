"""checks/verdict.py: a check prints one line, names the slip and never raises."""

import sys

import pytest
import torch

from normcourse.checks.verdict import Verdict, exercise, expect, parts, unchanged

WANT = torch.tensor([1.0, 2.0], dtype=torch.float64)


@exercise("Exercise 0 (demo)")
def check(student):
    x = WANT.clone()
    expect(student(x), WANT, slips={"twice as much": 2 * WANT, "the sum": WANT.sum()})
    unchanged("x", WANT, x)


def stub(x):
    raise NotImplementedError


def crash(x):
    return x.nonsense()


def missing_kernel(x):
    raise NotImplementedError('"norm" not implemented for Long')


def writes_into_its_input(x):
    return x.mul_(1.0).add_(1.0).sub_(0.0) * 0 + WANT


VERDICTS = [
    (lambda x: WANT.clone(), "[ok] Exercise 0 (demo)"),
    (stub, "[ ] Exercise 0 (demo): not attempted yet"),
    (None, "[ ] Exercise 0 (demo): not attempted yet"),
    (..., "[ ] Exercise 0 (demo): not attempted yet"),
    (lambda x: 2 * x, "[x] Exercise 0 (demo): twice as much"),
    (lambda x: x.sum(), "[x] Exercise 0 (demo): the sum"),
    (lambda x: x + 0.5, "[x] Exercise 0 (demo): the output is off by up to 0.5."),
    (lambda x: x[None], "[x] Exercise 0 (demo): the output has shape (1, 2), expected (2,)."),
    (
        lambda x: x.float(),
        "[x] Exercise 0 (demo): the output has dtype torch.float32, expected torch.float64.",
    ),
    (lambda x: x / 0, "[x] Exercise 0 (demo): the output holds NaN or infinity."),
    (lambda x: None, "None (is the return missing?), expected a tensor of shape (2,)."),
    (lambda x: (x, x), "a tuple of length 2, expected a tensor of shape (2,)."),
    (crash, "your code raised AttributeError: "),
    (missing_kernel, "your code raised NotImplementedError: "),
    (writes_into_its_input, "x was changed in place"),
    (3, "your code raised TypeError: "),
    (lambda x: sys.exit("bye"), "your code raised SystemExit: bye"),
]


@pytest.mark.parametrize(("student", "line"), VERDICTS, ids=range(len(VERDICTS)))
def test_the_verdict_is_one_printed_line_that_is_returned(student, line, capsys):
    verdict = check(student)
    assert line in verdict
    assert capsys.readouterr().out == verdict + "\n"


def test_ipython_does_not_echo_a_verdict():
    assert isinstance(check(stub), Verdict)
    assert check(stub)._ipython_display_() is None


@exercise("a number")
def check_number(answer):
    expect(answer, 0.25, slips={"that is the root": 0.5}, what="the variance", rtol=1e-2)


NUMBERS = [
    (0.25, "[ok]"),
    (0.2501, "[ok]"),
    (torch.tensor(0.25), "[ok]"),
    (0.5, "that is the root"),
    (0.3, "off by up to 0.05"),
    ("0.25", "a str, expected a number"),
    (True, "a bool, expected a number"),
    (float("nan"), "NaN"),
    (torch.zeros(2), "a Tensor, expected a number"),
]


@pytest.mark.parametrize(("answer", "piece"), NUMBERS, ids=range(len(NUMBERS)))
def test_a_number_is_judged_with_its_tolerance(answer, piece):
    assert piece in check_number(answer)


@exercise("two parts")
def check_parts(student):
    dx, _ = parts(student(), "dx", "dw")
    expect(dx, WANT, what="dx")


@pytest.mark.parametrize(
    ("result", "piece"),
    [
        ((WANT, 0), "[ok]"),
        ([WANT, 0], "[ok]"),
        (WANT, "a Tensor, expected a tuple (dx, dw)"),
        ((WANT,), "length 1"),
    ],
    ids=["tuple", "list", "tensor", "short"],
)
def test_parts_asks_for_the_right_number_of_results(result, piece):
    assert piece in check_parts(lambda: result)
