"""What torch raises for bad input we must raise, and where it says nothing, ValueError."""

import re
import warnings
from types import SimpleNamespace

import torch

from normlib import functional, layers

TORCH = SimpleNamespace(F=torch.nn.functional, nn=torch.nn)
OURS = SimpleNamespace(F=functional, nn=layers)
NAN, INF = float("nan"), float("inf")


def error_of(call, library):
    with warnings.catch_warnings(action="ignore"):
        try:
            call(library)
        except Exception as error:
            return error
    return None


def assert_rejected(call, *pieces):
    """call(OURS) raises what call(TORCH) does, or ValueError.

    Its message has the pieces and a fix.
    """
    theirs, ours = error_of(call, TORCH), error_of(call, OURS)
    assert isinstance(ours, ValueError if theirs is None else type(theirs)), (
        f"{ours!r} for torch's {theirs!r}"
    )
    for piece in pieces:
        assert piece in str(ours)
    assert re.search(r"(\. |: )[A-Z].*\.$", str(ours)), f"no sentence with the fix in: {ours}"
