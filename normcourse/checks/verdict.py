"""What the checks of all lessons share: the verdict line, and comparisons that name a slip.

    @exercise("Exercise 1 (layer norm)")
    def layer_norm(student):
        expect(student(x), truth, slips={"divide by D, not by D - 1": unbiased})

`layer_norm(my_function)` then prints "[ ] … not attempted yet", "[x] … <the slip>" or "[ok] …".
"""

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class Slip(Exception):
    """A mistake in the student's answer; its text tells the student what to look at."""


class Verdict(str):
    """The line that a check printed. IPython does not echo it a second time."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        pass


def exercise(title: str) -> Callable:
    """Make a check out of a probe that raises Slip: it prints and returns one line, whatever happens."""

    def make_check(probe: Callable) -> Callable:
        @functools.wraps(probe)
        def check(*answers) -> Verdict:
            verdict = Verdict(_judge(probe, answers, title))
            print(verdict)
            return verdict

        return check

    return make_check


def _judge(probe: Callable, answers: tuple, title: str) -> str:
    if any(answer is None or answer is Ellipsis for answer in answers):
        return f"[ ] {title}: not attempted yet"
    try:
        probe(*answers)
    except Slip as slip:
        return f"[x] {title}: {slip}"
    except (Exception, SystemExit) as error:  # the student's code may raise anything
        from_torch = "not implemented for" in str(error)  # its words for a dtype without a kernel
        if isinstance(error, NotImplementedError) and not from_torch:
            return f"[ ] {title}: not attempted yet"
        first_line = (str(error).splitlines() or ["no message"])[0]
        return f"[x] {title}: your code raised {type(error).__name__}: {first_line}"
    return f"[ok] {title}"


def expect(
    got,
    want: Tensor | float,
    slips: Mapping[str, Tensor | float] | None = None,
    what: str = "the output",
    rtol: float = 1e-9,
    atol: float = 1e-12,
) -> None:
    """Raise Slip unless got is want: a tensor of its shape, dtype and values, or a number.

    slips maps a message to the wrong value that this mistake produces; the first that fits is named.
    """
    if not isinstance(want, Tensor):
        got, want = _as_number(got, what), torch.tensor(float(want), dtype=torch.float64)
    if not isinstance(got, Tensor):
        raise Slip(f"{what} is {_describe(got)}, expected a tensor of shape {tuple(want.shape)}.")
    if got.shape == want.shape and got.dtype == want.dtype and _close(got, want, rtol, atol):
        return
    for message, wrong in (slips or {}).items():
        wrong = torch.as_tensor(wrong, dtype=want.dtype)
        if got.shape == wrong.shape and _close(got, wrong, rtol, atol):
            raise Slip(message)
    if got.shape != want.shape:
        raise Slip(f"{what} has shape {tuple(got.shape)}, expected {tuple(want.shape)}.")
    if got.dtype != want.dtype:
        raise Slip(f"{what} has dtype {got.dtype}, expected {want.dtype}.")
    if not got.isfinite().all():
        raise Slip(f"{what} holds NaN or infinity.")
    raise Slip(f"{what} is off by up to {(got - want).abs().max().item():.2g}.")


def parts(got, *names: str) -> tuple:
    """got as a tuple with one part a name, or Slip."""
    if not isinstance(got, tuple | list) or len(got) != len(names):
        raise Slip(f"the result is {_describe(got)}, expected a tuple ({', '.join(names)}).")
    return tuple(got)


def call(student: Callable, **arguments):
    """What student makes of copies of the arguments; Slip if it wrote into one."""
    copies = {name: a.clone() if isinstance(a, Tensor) else a for name, a in arguments.items()}
    result = student(*copies.values())
    for name, before in arguments.items():
        if isinstance(before, Tensor):
            unchanged(name, before, copies[name])
    return result


def unchanged(name: str, before: Tensor, after: Tensor) -> None:
    """Raise Slip if the student's code wrote into a tensor that it was given."""
    if not torch.equal(before, after):
        raise Slip(f"{name} was changed in place; the caller still needs it. Write into a new tensor.")


def _as_number(got, what: str) -> Tensor:
    if isinstance(got, Tensor) and got.numel() == 1:
        got = got.item()
    if isinstance(got, bool) or not isinstance(got, int | float):
        raise Slip(f"{what} is {_describe(got)}, expected a number.")
    return torch.tensor(float(got), dtype=torch.float64)


def _close(got: Tensor, want: Tensor, rtol: float, atol: float) -> bool:
    return torch.allclose(got.to(want.dtype), want, rtol=rtol, atol=atol, equal_nan=True)


def _describe(got) -> str:
    if got is None:
        return "None (is the return missing?)"
    return f"a {type(got).__name__}" + (f" of length {len(got)}" if isinstance(got, tuple | list) else "")
