"""Bad input to each norm: refused with the fix, by its gradients in the same words.

Where torch has the norm, with torch's kind of error.
"""

import inspect
import re
import warnings

import numpy
import pytest
import torch
import torch.nn.functional as F

from normlib import functional
from tests.library.norm_cases import BIG, FUNCTIONS, draw
from tests.library.rejection import INF, NAN

NO_NUMBER = ["1e-5", [1e-5], 1j]
KINDS = {  # what is wrong: the kind of error where torch says nothing, or has no such function
    "no tensor": TypeError,
    "no floats": NotImplementedError,
    "no floats in a parameter": RuntimeError,
    "a size": RuntimeError,
    "eps": ValueError,
    "eps is no number": TypeError,
    "an option": Exception,
}
NO_SCALE = [0, -1.0, NAN, INF, "sqrt_d"]
BAD_OPTIONS = {  # beside eps: name of the argument, values; the input is BIG
    "normalized_shape": [
        *[5, (), (6,), (9,), (6, 4), (2, 4, 6, 5), (4, 6, 5, 1), (5.0,), (True,), "ab"],
        *[torch.tensor([5]), torch.tensor(5), numpy.array([5]), {5}],
    ],
    "num_groups": [0, -1, -2, 4, 7, "2", 2.0, None],
    "dim": [3, -4],
    "scale": NO_SCALE,
    "cap": NO_SCALE,
    "alpha": NO_SCALE,  # isru's, a number
}
OTHERWISE = {"no tensor", "eps"}  # torch's error is one or another by chance; it takes any eps


def sizes(case, name):
    """Shapes that the parameter must not have, though some would broadcast."""
    right = tuple(case.parameters[name](BIG))
    wrong = [tuple(size + 1 for size in right), (3, *right), (*right, 7)]
    if len(right) == 1 and right != (1,):
        wrong += [(1,), (), (1, *right), (2, 3)]
    if case.groups and right != (1,):
        wrong += [(*right, 1)]
    return wrong


def bad_arguments(case):
    """What is wrong, the argument, its value, and pieces of what the error has to say."""
    for value in ([[1.0, 2.0]], None, "x"):
        yield "no tensor", "input", value, [type(value).__name__]
    for dtype in (torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex64):
        yield "no floats", "input", torch.ones(BIG).to(dtype), [str(dtype), "float"]
    taken = inspect.signature(getattr(functional, case.function)).parameters
    for name in case.parameters:
        right = case.parameters[name](BIG)
        for value in ([1.0] * 6, 2.0):
            yield "no tensor", name, value, [name, str(value)]
        if taken[name].default is inspect.Parameter.empty:
            yield "no tensor", name, None, [name, "None"]
        for size in sizes(case, name):
            yield "a size", name, draw(*size).abs(), [name, str(size)]
        for dtype in (torch.int64, torch.bool, torch.complex64):
            value = torch.ones(right).to(dtype)
            yield "no floats in a parameter", name, value, [name, str(dtype)]
    for name in case.options(BIG).keys() - {"eps"}:
        for value in BAD_OPTIONS[name]:
            yield "an option", name, value, [repr(value).strip("()")]
    if case.has_eps:
        for value in (-1e-5, NAN, INF):
            yield "eps", "eps", value, [f"eps={value}"]
        for value in NO_NUMBER:
            yield "eps is no number", "eps", value, ["needs a number as eps", repr(value)]


def error_of(function, *args, **kwargs):
    with warnings.catch_warnings(action="ignore"):
        try:
            function(*args, **kwargs)
        except Exception as error:
            return error
    return None


def complaints(case):
    """What is wrong with how a function and its gradients refuse each bad argument."""
    x, *parameters = case.tensors(BIG)
    forward_only = case.forward_only(x, *parameters)
    good = {"input": x} | case.arguments(BIG, *parameters)
    function = getattr(functional, case.function)
    for kind, name, value, pieces in bad_arguments(case):
        given = good | {name: value}
        first = given.pop("input")
        ours = error_of(function, first, **given, **forward_only)
        where = f"{case.name}, {name}={value!r:.60}: "
        theirs = None
        # torch._weight_norm is not asked: it checks neither shape nor number of g, and reads past
        # its end
        is_asked = case.torch_function and hasattr(F, case.function) and kind not in OTHERWISE
        if is_asked:
            theirs = error_of(case.torch_function, first, **given, **forward_only)
        expected = KINDS[kind] if theirs is None else type(theirs)
        if not isinstance(ours, expected):
            yield f"{where}{ours!r} in place of {expected.__name__}"
            continue
        missing = [piece for piece in pieces if piece not in str(ours)]
        if missing:
            yield f"{where}the error does not say {missing}: {ours}"
        if not re.search(r"(\. |: )[A-Z].*\.$", str(ours)):
            yield f"{where}no sentence with the fix in: {ours}"
        for witness in ("backward", "jacobian"):
            if not case.witness(witness):
                continue
            head = [draw(*BIG)] if witness == "backward" else []
            error = error_of(case.witness(witness), *head, first, **given)
            caller = f"{case.function}_{witness}"
            if type(error) is not type(ours):
                yield f"{where}{caller} gives {error!r}"
            elif str(error) != str(ours).replace(case.function, caller, 1):
                yield f"{where}{caller} says: {error}"


@pytest.mark.parametrize("case", FUNCTIONS, ids=str)
def test_what_is_bad_is_refused_by_the_function_and_its_gradients(case):
    assert list(complaints(case)) == []


@pytest.mark.parametrize("case", FUNCTIONS, ids=str)
def test_good_arguments_are_taken(case):
    tensors = case.tensors(BIG)
    assert case.call(*tensors).shape == BIG
    if case.witness("backward"):
        assert case.backward(draw(*BIG), *tensors)[0].shape == BIG
    if case.witness("jacobian"):
        case.jacobian(*tensors)


@pytest.mark.parametrize("case", [case for case in FUNCTIONS if case.witness("backward")], ids=str)
def test_a_gradient_that_is_none_is_refused(case):
    backward = case.witness("backward")
    x, *parameters = case.tensors(BIG)
    given = case.arguments(BIG, *parameters)
    for dy, kind in [(None, TypeError), ([1.0], TypeError), (x.long(), NotImplementedError)]:
        error = error_of(backward, dy, x, **given)
        assert type(error) is kind, error
        assert f"{case.function}_backward needs" in str(error)
