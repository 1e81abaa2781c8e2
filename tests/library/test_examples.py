"""The example in each public docstring of normlib runs and prints what it says."""

import doctest
import inspect

import pytest
import torch
from torch import nn

from normlib import functional, fused, gradients, layers, surgery

NAMES = {"torch": torch, "nn": nn, "functional": functional, "fused": fused, "gradients": gradients}
NAMES |= {"layers": layers, "surgery": surgery}
ROOMS = [functional, gradients, layers, fused, surgery]
PUBLIC = {
    f"{room.__name__}.{name}": getattr(room, name)
    for room in ROOMS
    for name in room.__all__
}  # fmt: skip


def failures(text):
    """What the examples of a docstring print otherwise; None where there is no example."""
    test = doctest.DocTestParser().get_doctest(text, dict(NAMES), "docstring", None, 0)
    if not test.examples:
        return None
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_docstring_has_an_example_that_holds(name):
    assert failures(inspect.getdoc(PUBLIC[name])) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("y = x", None),
        (">>> 1 + 1\n2", ""),
        (">>> 1 + 1\n3", "Got"),
        (">>> 1 / 0\n3", "ZeroDivisionError"),
    ],
)
def test_an_example_that_does_not_hold_is_seen(text, found):
    got = failures(text)
    assert got == found or (found and found in got)
