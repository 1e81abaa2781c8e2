"""How a check is written: a verdict of one line, and comparisons that name the slip.

    SLIPS = {  # what the check says: the wrong answer that earns it
        "divide by D, not by D - 1.": lambda x, eps: standardize(x, eps, correction=1),
        "eps is not used.": lambda x, eps: standardize(x, 0.0),
    }

    @exercise("Exercise 1 (layer norm)", f"rows with the mean {MEAN}")
    def layer_norm(student):
        cases = [{"x": draw(3, 5), "eps": 0.5}, {"x": draw(2, 3, 7), "eps": 0.1}]
        calls(forbid(student, "layer_norm", "normlib"), reference, *cases, slips=SLIPS)
        same_gradients(student, reference, cases[0])

`layer_norm(my_function)` then prints "[ ] … not attempted yet", "[x] … <the slip>" or "[ok] …". A
check never raises, gives up on an endless loop, and restores torch's default dtype.

In this file:
    exercise(title, *says)         makes a check out of a probe that raises Slip
    expect(got, want, slips)       one value: a tensor, a number of any library, a SymPy expression
    is_value(got, want)            whether expect would accept it
    real(value, name)              a number of any library as a float
    numbers(values, name)          several of them, in a list, a tensor or an array
    every_case()                   a block of several comparisons: a slip has to fit in all of them
    parts(got, "dx", "dw")         a result that should be a tuple of so many parts
In probes.py, for an answer that is a function:
    call(student, x=x, eps=eps)    one call with copies of the arguments; Slip if it wrote into one
    calls(student, reference, *cases, slips)           the same values in cases of different shapes
    same_gradients(student, reference, case, slips)    the same gradients: finds detach and no_grad
    used_by(student, x=x)                              names of torch's functions in one call
    unshared(net, copied)                              a Slip if a copy shares weights with the net
    forbid(student, "autograd", "normlib")    the student, but for these means
    lined_up(student, reason)      the student; shapes that do not fit are a Slip with the reason
In raised.py: what a message of Python or torch means, in plain words; each check says it.
Wrong answers that several checks name, as tables {what the check says: what earns it}:
    moments.py     statistics, gain and bias of a norm over any axes
    brackets.py    the gradient of such a norm
    intervals.py   the half-width of an interval
    rms_rows.py    RMSNorm of rows

What a good check does:
- State each part of the exercise's text that holds a number, made of the constants that the check
  uses. A test compares the numbers with those of the text, whose words are free.
- Choose inputs where a wrong formula cannot be right by chance: no square shape, no batch of one, a
  large eps, a gain that is not 1; more than one number of rows, seeds or steps, an odd one out in
  each place, a zero where the page says what comes out, names in another order than their costs.
- Call a function with two cases at least, of different shapes, one with more leading dimensions:
  `calls` then finds sizes that are built in, a result kept from the first call, inputs written
  into, and tensors taken for contiguous. Where it does not fit, `with every_case() as cases:`
  does. A slip is named only if it fits in every case, as closely as the right answer has to.
- Ask a forward function for its gradients as well, in training and in evaluation.
- Forbid what the page forbids, and nothing else: a test compares.
- Name at least eight slips. Have ten wrong answers written by somebody else before you write it:
  they go into the tests of the lesson's checks, beside five right ones of other styles (numpy,
  fractions, a loop, torch.compile). A tolerance other than expect's own has its reason beside it.
"""

import contextlib
import functools
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from normcourse import progress
from normcourse.checks import guard
from normcourse.checks.raised import one_line
from normcourse.checks.values import (
    as_expression,
    as_number,
    at_points,
    describe,
    is_complex,
    is_expression,
    is_float32,
    points_of,
)

# a number that is computed in float32 is as near to the right one, after a few operations
FLOAT32 = 1e-6
COMPLEX = (
    "{} is complex, expected real numbers. From the root of a negative number, from an eigenvalue? "
    "An imaginary part that is 0 goes with .real."
)


class Slip(Exception):
    """A mistake in the student's answer; its text tells the student what to look at."""


class Verdict(str):
    """The line that a check printed. IPython does not echo it a second time."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        pass


def exercise(title: str, *says: str) -> Callable:
    """Make a check out of a probe that raises Slip.

    The check prints and returns one line, whatever happens. A string that the probe returns is
    appended to the [ok] line.

    says: the parts of the exercise's text that hold a number, made from the constants that the
    check uses. A test finds the numbers of each in the text, and no others.
    """

    def make_check(probe: Callable) -> Callable:
        @functools.wraps(probe)
        def check(*answers) -> Verdict:
            verdict = Verdict(_judge(probe, answers, title))
            print(verdict)
            if verdict.startswith("[ok]"):
                _remember(probe)
            return verdict

        vars(check)["says"] = says
        return check

    return make_check


def _remember(probe: Callable) -> None:
    """Tell a reader of `make lab` how far the lesson is solved."""
    known = vars(sys.modules[probe.__module__])
    exercises = {name for name, each in known.items() if hasattr(each, "says")}
    line = progress.remember(probe.__module__.split(".")[-1], probe.__name__, exercises)
    if line:
        print(f"     {line}")


def _judge(probe: Callable, answers: tuple, title: str) -> str:
    not_attempted = f"[ ] {title}: not attempted yet"
    if any(_is_blank(answer) for answer in answers):
        return not_attempted
    try:
        with guard.guarded():
            measured = probe(*answers)
    except Slip as slip:
        return f"[x] {title}: {slip}"
    except guard.TooLong:
        return f"[x] {title}: your code ran for more than {guard.SECONDS} s; does a loop never end?"
    except guard.Idle:
        waited = f"your code has waited for {guard.IDLE_SECONDS} s and computed nothing"
        return f"[x] {title}: {waited}; does it sleep, or ask for an input?"
    except (Exception, SystemExit) as error:  # the student's code may raise anything
        if _is_stub(error, answers):
            return not_attempted
        return f"[x] {title}: your code raised {one_line(error)}"
    return f"[ok] {title}" if measured is None else f"[ok] {title}: {measured}"


def _is_blank(answer) -> bool:
    """None, `...`, or several of them."""
    if isinstance(answer, dict) and answer:
        return all(_is_blank(part) for part in answer.values())
    if isinstance(answer, tuple | list) and answer:
        return all(_is_blank(part) for part in answer)
    return answer is None or answer is Ellipsis


class _Untouched(NotImplementedError):
    """The student's function returned `...`."""


def _is_stub(error: BaseException, answers: tuple) -> bool:
    """Whether the answer raised a bare NotImplementedError; libraries give theirs a message."""
    if isinstance(error, _Untouched):
        return True
    if not isinstance(error, NotImplementedError) or str(error):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    homes = {getattr(answer, "__module__", None) for answer in answers}
    return frame.f_globals.get("__name__") in homes


def expect(
    got,
    want,
    slips: Mapping | None = None,
    what: str = "the output",
    rtol: float = 1e-9,
    atol: float = 1e-12,
) -> None:
    """Raise Slip unless got is want: a tensor, a number, an expression or a name.

    A tensor needs the shape, the dtype and the values. slips maps a message to the wrong value that
    this mistake produces; the first that fits is named. Expressions are equal where their values
    are, at random points; a symbol of `want` may be positive.
    """
    tables = {message: [wrong] for message, wrong in (slips or {}).items()}
    expect_all([got], [want], tables, [what], rtol, atol)


def is_value(got, want) -> bool:
    """Whether expect would accept got."""
    try:
        expect(got, want)
    except Slip:
        return False
    return True


def real(value, name: str) -> float:
    """value as a float, or Slip: it is no number."""
    try:
        return as_number(value)
    except (TypeError, ValueError, OverflowError):
        raise Slip(f"{name} is {describe(value)}, expected a number.") from None


def numbers(values, name: str) -> list[float]:
    """A list, tuple, tensor or array of numbers as floats, or Slip."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    try:
        return [as_number(value) for value in listed]
    except (TypeError, ValueError, OverflowError):
        text = isinstance(values, list | tuple) and any(isinstance(value, str) for value in values)
        hint = " One is text: leave out the quotes." if text else ""
        raise Slip(f"{name} is {describe(values)}, expected a list of numbers.{hint}") from None


def expect_all(
    gots: Sequence,
    wants: Sequence,
    slips: Mapping[str, Sequence],
    labels: Sequence[str],
    rtol: float = 1e-9,
    atol: float = 1e-12,
    columns: int | None = None,
) -> None:
    """Raise Slip unless each of gots is its want.

    A slip, one wrong value a want, is named if its values fit in every case, as closely as the
    right ones would have to. `columns` says how many parts a case has; without it, all are one
    case.
    """
    given = _Given(list(gots), list(wants), dict(slips), list(labels), rtol, atol)
    _compare(given, columns or len(given.gots))


class Cases:
    """Comparisons that wait until all of them are known; every_case compares them together."""

    def __init__(self) -> None:
        self._given: list[_Given] = []

    def expect(
        self,
        got,
        want,
        slips: Mapping | None = None,
        what: str = "the output",
        rtol: float = 1e-9,
        atol: float = 1e-12,
    ) -> None:
        """Like the function of this name, later."""
        tables = {message: [wrong] for message, wrong in (slips or {}).items()}
        self._given.append(_Given([got], [want], tables, [what], rtol, atol))

    def compare(self) -> None:
        _compare_together(self._given)


@contextlib.contextmanager
def every_case() -> Iterator[Cases]:
    """`with every_case() as cases:` compares at its end all that cases.expect was given.

    A slip is named if it fits in every comparison that lists it, not in the first one alone. An
    error that the student's code raises on the way is reported after what is wrong before it.
    """
    cases = Cases()
    try:
        yield cases
    except BaseException:
        cases.compare()
        raise
    cases.compare()


@dataclass
class _Given:
    """What one call of expect_all has to compare."""

    gots: list
    wants: list
    slips: Mapping[str, Sequence]
    labels: list[str]
    rtol: float
    atol: float


ANY = object()  # what a slip says of a comparison that does not list it


def _compare_together(notes: list[_Given]) -> None:
    if not notes:
        return
    first = notes[0]
    if any((note.rtol, note.atol) != (first.rtol, first.atol) for note in notes):
        raise ValueError("the comparisons of one every_case block need the same tolerances")
    slips: dict[str, list] = {}
    for message in dict.fromkeys(message for note in notes for message in note.slips):
        slips[message] = []
        for note in notes:
            slips[message] += note.slips.get(message, [ANY] * len(note.gots))
    joined = _Given(
        [got for note in notes for got in note.gots],
        [want for note in notes for want in note.wants],
        slips,
        [label for note in notes for label in note.labels],
        first.rtol,
        first.atol,
    )
    _compare(joined, columns=1)


def _compare(given: _Given, columns: int) -> None:
    gots, wants, labels = given.gots, given.wants, given.labels
    truths = []
    values = []
    for got, want, label in zip(gots, wants, labels, strict=True):
        value, truth = _alike(got, want, label)
        values.append(value)
        truths.append(truth)
    places = range(len(values))
    rtols = [_within_reach(gots[i], wants[i], given.rtol) for i in places]
    faults = [i for i in places if not _same(values[i], truths[i], rtols[i], given.atol)]
    if not faults:
        return
    first = faults[0]
    # another mistake may spoil a later part; the parts before it the slip must have right as well
    up_to_it = [i for i in places if i % columns <= first % columns]
    for looked_at in (places, up_to_it):
        for message, wrongs in given.slips.items():
            if wrongs[first] is not ANY and all(
                wrongs[i] is ANY or _fits(gots[i], wrongs[i], wants[i], rtols[i], given.atol)
                for i in looked_at
            ):
                raise Slip(message)
    if isinstance(gots[first], str):
        raise Slip(f"{labels[first]} is {gots[first]!r}, and it should be another one.")
    raise Slip(_difference(values[first], truths[first], labels[first]))


def _within_reach(got, want, rtol: float) -> float:
    """What rtol a number in float32 can keep; a tensor has to come in the dtype that is asked."""
    return max(rtol, FLOAT32) if is_float32(got) and not isinstance(want, Tensor) else rtol


def _alike(got, want, label: str) -> tuple[Tensor, Tensor]:
    """got and want as two tensors that can be compared, or Slip: got is another kind of thing."""
    if got is Ellipsis:
        raise _Untouched
    if isinstance(want, Tensor):
        if not isinstance(got, Tensor):
            raise Slip(
                f"{label} is {describe(got)}, expected a tensor of shape {tuple(want.shape)}."
            )
        if got.is_complex() and not want.is_complex():
            raise Slip(COMPLEX.format(label))
        return got, want
    if isinstance(want, str):
        if not isinstance(got, str):
            raise Slip(f"{label} is {describe(got)}, expected a name in quotes.")
        return _letters(got), _letters(want)
    if is_expression(want) and want.free_symbols:
        return _expressions(got, want, label)
    if is_complex(got):
        raise Slip(COMPLEX.format(label))
    try:
        return _number(got), _number(want)
    except (TypeError, ValueError, OverflowError):
        raise Slip(f"{label} is {describe(got)}, expected a number.") from None


def _letters(name: str) -> Tensor:
    return torch.tensor([ord(letter) for letter in name], dtype=torch.float64)


def _number(value) -> Tensor:
    return torch.tensor(as_number(value), dtype=torch.float64)


def _expressions(got, want, label: str) -> tuple[Tensor, Tensor]:
    names = sorted(symbol.name for symbol in want.free_symbols)
    expected = f"expected an expression in {', '.join(names)}"
    try:
        expression = got if is_expression(got) else as_expression(got)
    except (TypeError, ValueError, OverflowError):
        raise Slip(f"{label} is {describe(got)}, {expected}.") from None
    unknown = sorted({symbol.name for symbol in expression.free_symbols} - set(names))
    if unknown:
        raise Slip(f"{label} holds {', '.join(unknown)}, {expected}.")
    points = points_of([expression, want])
    try:
        return at_points(expression, points), at_points(want, points)
    except (TypeError, ValueError):
        raise Slip(f"{label} has no value that can be computed, {expected}.") from None


def _same(value: Tensor, truth: Tensor, rtol: float, atol: float) -> bool:
    alike = value.shape == truth.shape and value.dtype == truth.dtype
    return alike and torch.allclose(value, truth, rtol=rtol, atol=atol, equal_nan=True)


def _fits(got, wrong, want, rtol: float, atol: float) -> bool:
    """Whether got is this slip's value; its dtype may be another one."""
    if isinstance(want, Tensor):
        wrong = torch.as_tensor(wrong, dtype=want.dtype)
        got = got.to(want.dtype)
    try:
        value, truth = _alike(got, wrong, "")
    except (Slip, TypeError, ValueError):
        return False
    return _same(value, truth, rtol, atol)


ROUNDED = " So little is float32's rounding: is something computed in it? (Or found by trial?)"


def _difference(value: Tensor, truth: Tensor, label: str) -> str:
    if value.shape != truth.shape:
        return f"{label} has shape {tuple(value.shape)}, expected {tuple(truth.shape)}."
    if value.dtype != truth.dtype:
        return f"{label} has dtype {value.dtype}, expected {truth.dtype}."
    if not value.isfinite().all():
        return f"{label} holds NaN or infinity."
    off = (value - truth).abs().max().item()
    rounded = truth.dtype == torch.float64 and off < FLOAT32 * truth.abs().max().item()
    hint = ROUNDED if rounded else ""
    share = ""
    if truth.dim() == 0 and truth != 0:
        share = f", which is {two_digits(100 * off / abs(truth.item()))} % of the right number"
    return f"{label} is off by up to {two_digits(off)}{share}.{hint}"


def two_digits(number: float) -> str:
    """The number rounded to two digits: 140, and not 1.4e+02."""
    return f"{float(f'{number:.2g}'):g}"


def parts(got, *names: str, kind: str = "tuple", what: str = "the result") -> tuple:
    """got as a tuple with one part a name, or Slip; `kind` is what the page asks for."""
    if not isinstance(got, tuple | list) or len(got) != len(names):
        raise Slip(f"{what} is {describe(got)}, expected a {kind} ({', '.join(names)}).")
    return tuple(got)
