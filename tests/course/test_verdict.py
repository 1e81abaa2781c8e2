"""checks/verdict.py: a check prints one line, names the slip and never raises."""

import decimal
import fractions
import signal
import sys
import threading

import numpy
import pytest
import sympy
import torch

from normcourse.checks import guard
from normcourse.checks.probes import unchanged
from normcourse.checks.verdict import Verdict, every_case, exercise, expect, parts
from normlib import functional

# the guard uses signals that Windows does not have
POSIX = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signal")
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


class Misspelt(torch.nn.Module):
    def forwrad(self, x):
        return x


class Stub(torch.nn.Module):
    def forward(self, x):
        raise NotImplementedError


def empty(x):
    return ...


def writes_into_its_input(x):
    return x.mul_(1.0).add_(1.0).sub_(0.0) * 0 + WANT


VERDICTS = [
    (lambda x: WANT.clone(), "[ok] Exercise 0 (demo)"),
    (stub, "[ ] Exercise 0 (demo): not attempted yet"),
    (None, "[ ] Exercise 0 (demo): not attempted yet"),
    (..., "[ ] Exercise 0 (demo): not attempted yet"),
    ((None, ...), "[ ] Exercise 0 (demo): not attempted yet"),
    (Stub(), "[ ] Exercise 0 (demo): not attempted yet"),
    (empty, "[ ] Exercise 0 (demo): not attempted yet"),
    (Misspelt(), "your code raised NotImplementedError: Module [Misspelt] is missing"),
    (
        lambda x: functional.softcap(torch.tensor([1, 2]), 3.0),
        "raised NotImplementedError: softcap",
    ),
    (
        lambda x: torch.autograd.Function.forward(x),
        "your code raised NotImplementedError: You must",
    ),
    (lambda x: 2 * x, "[x] Exercise 0 (demo): twice as much"),
    (lambda x: x.sum(), "[x] Exercise 0 (demo): the sum"),
    (lambda x: x + 0.5, "[x] Exercise 0 (demo): the output is off by up to 0.5."),
    (lambda x: x[None], "[x] Exercise 0 (demo): the output has shape (1, 2), expected (2,)."),
    (
        lambda x: x.float(),
        "[x] Exercise 0 (demo): the output has dtype torch.float32, expected torch.float64.",
    ),
    (lambda x: x + 0j, "[x] Exercise 0 (demo): the output is complex, expected real numbers"),
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


@exercise("Exercise 0 (a measurement)")
def check_measured(answer):
    expect(answer, 0.25)
    return "it took 3 steps."


def test_what_a_probe_measured_ends_the_line_of_an_accepted_answer():
    title = "Exercise 0 (a measurement)"
    assert check_measured(0.25) == f"[ok] {title}: it took 3 steps."
    assert check_measured(0.5).startswith(f"[x] {title}")


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
    (torch.tensor([0.25]), "[ok]"),
    (numpy.float32(0.25), "[ok]"),
    (numpy.array(0.25), "[ok]"),
    (fractions.Fraction(1, 4), "[ok]"),
    (decimal.Decimal("0.25"), "[ok]"),
    (sympy.Rational(1, 4), "[ok]"),
    (sympy.sqrt(sympy.Integer(1) / 16), "[ok]"),
    (sympy.exp(-sympy.log(4)), "[ok]"),
    (sympy.Symbol("x"), "a Symbol, expected a number"),
    (sympy.I / 4, "expected a number"),
    (0.25 + 0j, "the variance is complex, expected real numbers"),
    (numpy.complex64(0.25), "the variance is complex"),
    (torch.tensor(0.25 + 0j), "the variance is complex"),
    (numpy.bool_(True), "expected a number"),
    (numpy.array([True]), "expected a number"),
    (numpy.zeros(2), "a ndarray, expected a number"),
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


@exercise("a third")
def check_third(answer):
    expect(answer, 1 / 3, slips={"that is half a millionth more.": (1 + 5e-6) / 3})


THIRDS = [
    (numpy.float32(1 / 3), "[ok]"),
    (torch.tensor(1 / 3, dtype=torch.float32), "[ok]"),
    (numpy.float32((1 + 5e-6) / 3), "half a millionth more"),
    (numpy.float32(0.3334), "off by"),
    (0.333333343, "off by"),  # the same number, but nobody rounded it
    (numpy.float16(1 / 3), "off by"),
]


@pytest.mark.parametrize(("answer", "piece"), THIRDS, ids=range(len(THIRDS)))
def test_a_number_in_float32_is_judged_by_what_float32_can_keep(answer, piece):
    assert piece in check_third(answer)


@exercise("two rows")
def check_rows(student):
    with every_case() as cases:
        for row in ([1.0, 3.0], [2.0, 2.0, 8.0]):
            mean, size = parts(student(row), "mean", "size")
            slips = {
                "that is the sum.": sum(row),
                "that is the middle.": sorted(row)[len(row) // 2],
            }
            cases.expect(mean, sum(row) / len(row), slips, f"the mean of {row}")
            cases.expect(size, max(row), {"that is the smallest.": min(row)}, "the largest")


def of_each(mean, size=max):
    return lambda row: (mean(row), size(row))


def average(row):
    return sum(row) / len(row)


def fails_later(row):
    if len(row) == 3:
        raise KeyError("three")
    return sum(row), max(row)


ROWS = [
    (of_each(average), "[ok]"),
    (of_each(sum), "that is the sum."),
    (of_each(sum, min), "that is the sum."),  # the first mistake; the second one has its own name
    (of_each(average, min), "that is the smallest."),
    # the slip of one row, and none or another one in the other: it has no name
    (of_each(lambda row: sum(row) if len(row) == 2 else average(row)), "the mean of [1.0, 3.0] is"),
    (of_each(lambda row: average(row) if len(row) == 2 else sum(row)), "the mean of [2.0, 2.0, 8"),
    (of_each(lambda row: sum(row) if len(row) == 2 else sorted(row)[1]), "the mean of [1.0, 3.0]"),
    # what is wrong comes before what raises after it
    (fails_later, "that is the sum."),
    (of_each(lambda row: average(row) if len(row) == 2 else {}["x"]), "your code raised KeyError"),
    (stub, "not attempted yet"),
]


@pytest.mark.parametrize(("student", "line"), ROWS, ids=range(len(ROWS)))
def test_a_slip_has_to_fit_in_every_comparison_that_lists_it(student, line):
    assert line in check_rows(student)


def test_a_block_of_comparisons_has_one_tolerance():
    @exercise("two tolerances")
    def check_two(answer):
        with every_case() as cases:
            cases.expect(answer, 1.0)
            cases.expect(answer, 1.0, rtol=0.1)

    assert "need the same tolerances" in check_two(1.0)


@exercise("a name")
def check_name(answer):
    expect(answer, "Amber", {"that is a tree.": "Birch"}, "the choice")


NAMES = [
    ("Amber", "[ok]"),
    (numpy.str_("Amber"), "[ok]"),
    ("Birch", "that is a tree."),
    ("amber", "the choice is 'amber', and it should be another one."),
    (b"Amber", "the choice is a bytes, expected a name in quotes."),
    (3, "the choice is an int, expected a name in quotes."),
]


@pytest.mark.parametrize(("answer", "line"), NAMES, ids=range(len(NAMES)))
def test_a_name_is_judged_by_its_letters(answer, line):
    assert line in check_name(answer)


@exercise("an integer")
def check_integer(answer):
    expect(answer, 2)


@pytest.mark.parametrize("answer", [2, 2.0, numpy.int64(2), sympy.Integer(2)], ids=repr)
def test_an_integer_of_any_library_is_an_integer(answer):
    assert check_integer(answer).startswith("[ok]")


ALPHA, X = sympy.symbols("alpha x", positive=True)
ANY_X = sympy.Symbol("x")


@exercise("an expression")
def check_expression(answer):
    want = ALPHA * (1 - sympy.tanh(ALPHA * X) ** 2)
    slips = {"alpha is missing.": 1 - sympy.tanh(ALPHA * X) ** 2, "that is the slope at 0.": ALPHA}
    expect(answer, want, slips, "the slope")


EXPRESSIONS = [
    (ALPHA / sympy.cosh(ALPHA * X) ** 2, "[ok]"),
    (sympy.Derivative(sympy.tanh(ALPHA * X), X), "[ok]"),
    (sympy.Symbol("alpha") * (1 - sympy.tanh(sympy.Symbol("alpha") * ANY_X) ** 2), "[ok]"),
    (1 / sympy.cosh(ALPHA * X) ** 2, "alpha is missing."),
    (ALPHA, "that is the slope at 0."),
    (ALPHA * X, "the slope is off by up to"),
    (sympy.Symbol("t") * X, "the slope holds t, expected an expression in alpha, x."),
    (sympy.Function("f")(X), "the slope has no value that can be computed, expected an expression"),
    (0.5, "the slope is off by up to"),
    (lambda x: x, "the slope is a function, expected an expression in alpha, x."),
    ("alpha", "the slope is a str, expected an expression in alpha, x."),
]


@pytest.mark.parametrize(("answer", "piece"), EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_an_expression_is_judged_by_its_values(answer, piece):
    assert piece in check_expression(answer)


def test_a_real_symbol_is_tried_at_negative_values_too():
    @exercise("a root")
    def check_root(answer):
        expect(answer, sympy.Abs(ANY_X), slips={"the sign is lost.": ANY_X})

    assert check_root(sympy.sqrt(ANY_X**2)).startswith("[ok]")
    assert "the sign is lost." in check_root(ANY_X)


def test_a_loop_that_never_ends_ends_with_a_message(monkeypatch):
    def for_ever(x):
        while True:
            try:
                x = x + 0
            except Exception:
                return x

    with monkeypatch.context() as patch:  # for this call alone: what ends is not measured
        patch.setattr(guard, "SECONDS", 0.05)
        assert "your code ran for more than" in check(for_ever)
    assert check(lambda x: WANT.clone()).startswith("[ok]")


@POSIX
def test_a_code_that_only_waits_ends_with_a_message(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(guard, "IDLE_SECONDS", 0.5)
        said = check(lambda x: threading.Event().wait())
    assert "has waited for 0.5 s and computed nothing" in said
    assert check(lambda x: WANT.clone()).startswith("[ok]")


@POSIX
def test_the_time_limit_of_a_test_goes_on_after_a_check():
    """pytest-timeout sets the same alarm."""
    before = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        check(lambda x: WANT.clone())
        left, _ = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
    assert 0 < left <= 1000


@POSIX
@pytest.mark.parametrize(("computed", "line"), [(1.0, "[ok]"), (0.1, "has waited for 300 s")])
def test_who_computes_a_little_between_two_looks_does_not_wait(monkeypatch, computed, line):
    """The alarm is rung by hand, and the process's clock is set."""
    clock = [0.0]
    monkeypatch.setattr(guard.time, "process_time", lambda: clock[0])

    def slow(x):
        for _ in range(3):
            clock[0] += computed
            signal.raise_signal(signal.SIGALRM)
        return WANT.clone()

    assert line in check(slow)


def test_a_changed_default_is_restored():
    def changes(x):
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(False)
        return WANT.clone()

    before = torch.get_default_dtype()
    assert check(changes).startswith("[ok]")
    assert torch.get_default_dtype() == before
    assert torch.is_grad_enabled()
