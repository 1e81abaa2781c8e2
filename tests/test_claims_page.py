"""claims.yaml is complete, and its links lead somewhere."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from normcourse.lesson import Notebook
from tools import claims as tool
from tools import reference

ROOT = Path(__file__).parents[1]
COUNT = 241
CLAIMS = tool.claims()
RENEW = "edit notebooks/reference/claims.yaml, then run: make pages"
FIELDS = {"id", "where", "said", "verdict", "detail", "correction", "shown", "why_not"}


@cache
def code_cells(path: Path) -> dict[str, str]:
    """Id -> source of the code cells of a notebook."""
    return {cell.id: cell.source for cell in Notebook(path).code}


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def fault(place: str) -> str | None:
    """Why a place does not exist, or None."""
    if place.startswith("EQ-"):
        return None if place in reference.equations() else f"equations.md has no {place}"
    if place.startswith("tests/"):
        path, _, name = place.partition("::")
        if not (ROOT / path).exists():
            return f"there is no {path}"
        return None if name in functions(ROOT / path) else f"{path} has no {name}"
    number, _, cell = place.partition(" ")
    if number not in reference.lessons():
        return f"there is no lesson {number}"
    there = code_cells(reference.lessons()[number])
    return (
        None
        if cell in there
        else f"lesson {number} has no code cell {cell}; it has {', '.join(there)}"
    )


def asserts(place: str) -> bool:
    """An equation is evaluated and a test asserts; a cell does if it says assert."""
    if place.startswith(("EQ-", "tests/")):
        return True
    number, _, cell = place.partition(" ")
    return "assert" in code_cells(reference.lessons()[number]).get(cell, "")


def test_no_claim_is_missing_and_none_is_there_twice():
    found = [claim["id"] for claim in CLAIMS]
    expected = [f"A{number:02d}" for number in range(1, COUNT + 1)]
    missing = sorted(set(expected) - set(found))
    strange = sorted(set(found) - set(expected))
    assert not missing and not strange, f"missing {missing}, unknown {strange}: {RENEW}"
    assert found == expected, f"a claim is there twice, or out of order: {RENEW}"


def test_every_claim_is_complete():
    for claim in CLAIMS:
        assert claim.keys() <= FIELDS, claim["id"]
        assert claim["where"] and claim["said"] and claim["verdict"] in tool.VERDICTS, claim["id"]
        if claim["verdict"] != "correct":
            assert claim.get("correction"), f"{claim['id']}: say what holds; {RENEW}"
        somewhere = claim["shown"] or claim.get("why_not")
        assert somewhere, f"{claim['id']}: say where, or why not; {RENEW}"


def test_the_places_exist():
    faults = [
        f"{claim['id']}: {found}"
        for claim in CLAIMS
        for place in claim["shown"]
        if (found := fault(place))
    ]
    assert not faults, "\n".join([*faults, RENEW])


def test_what_is_not_right_is_refuted_by_something_that_runs():
    for claim in CLAIMS:
        if claim["verdict"] in ("wrong", "imprecise") and "why_not" not in claim:
            assert any(map(asserts, claim["shown"])), (
                f"{claim['id']}: name an equation, a test or a cell: {RENEW}"
            )


def test_the_pages_own_tests_are_all_named():
    """A counterexample in tests/course/test_claims.py stands at each claim of its name."""
    path = "tests/course/test_claims.py"
    shown = {claim["id"]: claim["shown"] for claim in CLAIMS}
    for name in functions(ROOT / path):
        for claim in re.findall(r"A\d+", name) if name.startswith("test_") else []:
            assert f"{path}::{name}" in shown[claim], f"{claim}: add {path}::{name}; {RENEW}"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("EQ-" + "GONE", "equations.md has no"),
        ("tests/gone.py::x", "there is no"),
        ("tests/test_readme.py::gone", "has no"),
        ("99 x", "no lesson 99"),
        ("03 gone", "no code cell gone; it has setup"),
    ],
)
def test_a_place_that_went_away_is_named(place, says):
    assert says in fault(place)
