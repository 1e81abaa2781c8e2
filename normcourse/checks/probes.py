"""For an answer that is a function: several calls, its gradients, means that it may not use."""

import contextlib
import copy
import functools
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from unittest import mock

import numpy
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from normcourse import draw
from normcourse.checks.raised import one_line
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, expect_all, parts

# One call


def call(student: Callable, **arguments):
    """What student makes of copies of the arguments, by position; Slip if it wrote into one."""
    copies = {name: _copy(value) for name, value in arguments.items()}
    result = student(*copies.values())
    for name, before in arguments.items():
        unchanged(name, before, copies[name])
    return result


def unchanged(name: str, before, after) -> None:
    """Raise Slip if the student's code wrote into a tensor, an array or a list."""
    if not _equal(before, after):
        raise Slip(f"{name} was changed in place; the caller still needs it. Make a new one.")


def _copy(value):
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, numpy.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_copy(part) for part in value)
    return copy.deepcopy(value) if is_dataclass(value) else value


def _equal(before, after) -> bool:
    if isinstance(before, Tensor):
        same_kind = before.shape == after.shape and before.dtype == after.dtype
        return same_kind and torch.allclose(before, after, rtol=0, atol=0, equal_nan=True)
    if isinstance(before, numpy.ndarray):
        return numpy.array_equal(before, after)
    if isinstance(before, dict):
        return list(before) == list(after) and _equal(list(before.values()), list(after.values()))
    if type(before) in (tuple, list):
        return len(before) == len(after) and all(map(_equal, before, after))
    if isinstance(before, int | float | str) or is_dataclass(before):
        return before == after or before != before  # NaN is not itself
    return True


# Several calls


def calls(
    student: Callable,
    reference: Callable,
    *cases: Mapping,
    slips: Mapping[str, Callable] | None = None,
    what: str | tuple[str, ...] = "the output",
    rtol: float = 1e-9,
    atol: float = 1e-12,
) -> None:
    """Raise Slip unless student gives what reference gives in every case.

    A case is {name: argument}, handed over by position. Choose cases of different, non-square
    shapes, one with more leading dimensions. The last one comes with tensors that are not
    contiguous. A slip is a function like reference; the one that fits every case is named. A tuple
    as `what` names the parts of the result.
    """
    if len(cases) < 2:
        raise ValueError(
            f"calls needs at least two cases, got {len(cases)}: one can be met by chance."
        )
    given = [*cases[:-1], {name: _strided(value) for name, value in cases[-1].items()}]
    names = (what,) if isinstance(what, str) else what

    def flat(function: Callable, seen: list) -> list:
        results = [function(*case.values()) for case in seen]
        return results if isinstance(what, str) else [part for parts_ in results for part in parts_]

    gots, failure = _results(student, given, what)
    seen = given[: len(gots) // len(names)]
    wants = flat(reference, seen)
    wrong = {message: flat(slip, seen) for message, slip in (slips or {}).items()}
    if len(seen) > 1:
        for_ever = "every call gives the result of the first one: compute it from the arguments."
        wrong[for_ever] = wants[: len(names)] * len(seen)
    places = ["", *(f" {_shapes(case)}" for case in seen[1:])]
    labels = [name + place for place in places for name in names]
    expect_all(gots, wants, wrong, labels, rtol, atol, columns=len(names))
    if failure is not None:
        raise Slip(failure)


def _results(
    student: Callable, cases: list, what: str | tuple[str, ...]
) -> tuple[list, str | None]:
    """The student's results in the cases up to the first that raises, and what it raised.

    An error in the first case is not caught: there is nothing to compare then.
    """
    gots: list = []
    for case in cases:
        try:
            got = call(student, **case)
        except (Slip, NotImplementedError):
            raise
        except Exception as error:
            if not gots:
                raise
            return gots, f"{_shapes(case)}: your code raised {one_line(error)}"
        gots.extend([got] if isinstance(what, str) else parts(got, *what))
    return gots, None


def _shapes(case: Mapping) -> str:
    """The case in words: "for x of shape (2, 3), eps = 0.1"."""
    words = []
    for name, value in case.items():
        if isinstance(value, Tensor) and value.dim() > 0:
            words.append(f"{name} of shape {tuple(value.shape)}")
        elif isinstance(value, int | float | str | Tensor):
            words.append(f"{name} = {value}")
    return f"for {', '.join(words)}" if words else "in another case"


def _strided(value):
    """The same values; in memory the first and the last axis have changed places."""
    if not isinstance(value, Tensor) or value.dim() < 2:
        return value
    return value.transpose(0, -1).contiguous().transpose(0, -1)


# Gradients


def same_gradients(
    student: Callable,
    reference: Callable,
    case: Mapping,
    slips: Mapping[str, Callable] | None = None,
    when: str = "",
    rtol: float = 1e-8,
    atol: float = 1e-11,
) -> None:
    """Raise Slip unless autograd sends the same gradients through student as through reference.

    Every floating-point tensor of the case is asked; a slip is a function like reference. What is
    said begins with `when`.
    """
    wants = {name: want for name, want in _gradients(reference, case).items() if want is not None}
    gots = _gradients(student, case)
    if all(gots[name] is None for name in wants):
        raise Slip(
            f"{when}no gradient comes back: the output is cut off from its inputs. "
            "Look for detach(), .data, .item(), torch.no_grad() or a new torch.tensor(…)."
        )
    for name in wants:
        if gots[name] is None:
            raise Slip(
                f"{when}no gradient reaches {name}: it is used through detach(), .data or no_grad."
            )
    wrong = {}
    for message, slip in (slips or {}).items():
        found = _gradients(slip, case)
        wrong[message] = [
            torch.zeros_like(w) if found[n] is None else found[n] for n, w in wants.items()
        ]
    right_but = f"{when}the values are right, but the gradient with respect to"
    labels = [f"{right_but} {name}" for name in wants]
    expect_all([gots[name] for name in wants], list(wants.values()), wrong, labels, rtol, atol)


def _can_learn(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _learning(case: Mapping) -> dict:
    return {
        name: value.detach().clone().requires_grad_() if _can_learn(value) else _copy(value)
        for name, value in case.items()
    }


def _gradients(function: Callable, case: Mapping) -> dict[str, Tensor | None]:
    """{name: gradient of <output, fixed random numbers>}; None where nothing arrives."""
    arguments = _learning(case)
    asked = {name: value for name, value in arguments.items() if _can_learn(value)}
    with torch.enable_grad():
        output = function(*arguments.values())
    if not isinstance(output, Tensor):
        raise Slip(f"the output is {describe(output)}, expected a tensor.")
    if not output.requires_grad:
        return dict.fromkeys(asked)
    weights = draw(*output.shape, seed=7).to(output.dtype)
    try:
        found = torch.autograd.grad(output, list(asked.values()), weights, allow_unused=True)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        raise Slip(
            "the gradient needs a tensor that your code has overwritten (/=, *=, += or a method "
            "with _ at its end): write c = c / s in place of c /= s."
        ) from None
    return dict(zip(asked, found, strict=True))


# A copy of a network


def unshared(net: nn.Module, copied: nn.Module) -> None:
    """Raise Slip if a weight or a buffer of the copy lies in the net's memory."""
    kept = {tensor.data_ptr(): name for name, tensor in net.state_dict(keep_vars=True).items()}
    for tensor in (*copied.parameters(), *copied.buffers()):
        if tensor.numel() and tensor.data_ptr() in kept:
            raise Slip(
                f"your net shares {kept[tensor.data_ptr()]} with the one that was passed in: "
                "whoever trains it changes both. Work on copy.deepcopy(net)."
            )


# Means that the page forbids


def forbid(student: Callable, *means: str) -> Callable:
    """student, with a Slip when it uses one of these means.

    A mean is "autograd", "normlib" (any function of the library) or one of its rooms, such as
    "normlib.gradients", or a function of torch by name, such as "softmax". Raises ValueError for
    another word, which would forbid nothing.
    """
    if unknown := [mean for mean in means if not _is_known(mean)]:
        raise ValueError(
            f'forbid knows no {unknown[0]!r}. Pass "autograd", "normlib", a room of normlib, or '
            "the name of a function of torch."
        )

    @functools.wraps(student)
    def watched(*arguments):
        with _Watch() as functions, _autograd_watched(functions.used):
            result = student(*arguments)
        for mean in means:
            if functions.has(mean):
                raise Slip(f"this exercise is to be solved without {mean}, which your code calls.")
        return result

    return watched


def _is_known(mean: str) -> bool:
    if mean.partition(".")[0] == "normlib":
        return importlib.util.find_spec(mean) is not None
    homes = (torch, torch.nn.functional, Tensor, torch.linalg, torch.ops.aten)
    return mean == "autograd" or any(hasattr(home, mean) for home in homes)


def used_by(student: Callable, **arguments) -> set[str]:
    """The names of torch's functions that one call goes through."""
    with _Watch() as functions:
        call(student, **arguments)
    return functions.used


class _Watch(TorchFunctionMode):
    """Collects in `used` the names of what is called; what is compiled runs as it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[str] = set()

    def __enter__(self):
        """Eager: dynamo cannot trace _is_inside. It takes a second to load, so it is not loaded."""
        self.eager = contextlib.ExitStack()
        if "torch._dynamo" in sys.modules:  # something may be compiled already
            self.eager.enter_context(torch.compiler.set_stance("force_eager"))
        self.eager.enter_context(mock.patch.object(torch, "compile", _as_it_is))
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.eager.close()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        self.used.add("autograd" if name in ("grad", "backward") else name)
        self.used |= _rooms_of("normlib")
        return function(*args, **(kwargs or {}))

    def has(self, mean: str) -> bool:
        """Whether it was used, under its name or a longer one.

        "native_layer_norm" counts as "layer_norm".
        """
        return any(name == mean or name.endswith(f"_{mean}") for name in self.used)


def _as_it_is(model: Callable | None = None, **options) -> Callable:
    """In the place of torch.compile, which decorates with options and without."""
    return (lambda function: function) if model is None else model


def _rooms_of(package: str) -> set[str]:
    """The package and its rooms that are among the callers, up to the student's code."""
    found = set()
    for frame, _ in traceback.walk_stack(sys._getframe(2)):
        name = frame.f_globals.get("__name__", "")
        if name == __name__:
            break
        parts = name.split(".")
        if parts[0] == package:
            found |= {package, ".".join(parts[:2])}
    return found


@contextlib.contextmanager
def _autograd_watched(used: set[str]) -> Iterator[None]:
    """Add "autograd" to used when a derivative is taken, also forward or by torch.func."""

    def noting(function: Callable) -> Callable:
        def noted(*arguments, **options):
            used.add("autograd")
            return function(*arguments, **options)

        return noted

    with contextlib.ExitStack() as stack:
        for home, name in ((torch.autograd, "backward"), (torch.autograd.forward_ad, "make_dual")):
            patch = mock.patch.object(home, name, noting(getattr(home, name)))
            stack.enter_context(patch)
        yield


def lined_up(student, reason: Callable[[], str]):
    """The student; shapes that torch cannot line up are a Slip that gives the reason."""

    @functools.wraps(student)
    def watched(*arguments):
        try:
            return student(*arguments)
        except RuntimeError as error:
            if "must match the size" not in str(error):
                raise
            raise Slip(f"two shapes do not fit: {reason()} torch says: {error}") from error

    return watched
