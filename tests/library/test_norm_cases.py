"""Whatever is public in functional, gradients and layers has a row in the registry of norms."""

import pytest

from normlib import functional, gradients, layers
from tests.library.norm_cases import FUNCTIONS, LAYERS, ROWS, NormCase


def without_a_row():
    """Where a name is public, and the name."""
    kinds = [f"{case.function}_{kind}" for case in ROWS for kind in case.witnesses]
    known = {
        functional: {case.function for case in FUNCTIONS},
        gradients: set(kinds),
        layers: {layer.name for _, layer in LAYERS},
    }
    return [
        f"{room.__name__}.{name} has no row: add it to ROWS in tests/library/norm_cases.py"
        for room, names in known.items()
        for name in room.__all__
        if name not in names
    ]


def test_what_is_public_has_a_row():
    assert without_a_row() == []


@pytest.mark.parametrize("room", [functional, gradients, layers], ids=lambda room: room.__name__)
def test_a_new_public_name_is_missed(room, monkeypatch):
    monkeypatch.setattr(room, "__all__", [*room.__all__, "new_norm"])
    (complaint,) = without_a_row()
    assert complaint.startswith(f"{room.__name__}.new_norm has no row")


def test_rows_have_names_of_their_own():
    assert len({case.name for case in ROWS}) == len(ROWS)


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_a_row_without_statistics_says_so(case):
    """Values that share no statistics change alone: a row that forgot `groups` is seen."""
    moved, *others = case.tensors(case.small)
    before = case.formula(moved, *others)
    first = (0,) * moved.dim()
    moved[first] += 1
    changed = (case.formula(moved, *others) != before).sum()
    assert (changed == 1) == (case.groups is None) or case.function == "softmax"


def test_a_row_takes_its_functions_name():
    row = NormCase(name="softcap", formula=lambda x: x, shapes=[(2,)])
    assert row.function == "softcap" and row.witness("backward") is gradients.softcap_backward
    assert NormCase(name="other", formula=lambda x: x, shapes=[(2,)]).witness("backward") is None
