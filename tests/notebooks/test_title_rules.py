"""What is planted in a title cell shows."""

import pytest

from normcourse.lesson import Notebook
from tests.notebooks.prose_rules import ROOT
from tests.notebooks.title_rules import needed, needs, objectives


def complaints(number, rule, there="", planted=""):
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    notebook = Notebook(path)
    title = notebook.markdown[0]
    assert there in title.source
    title.source = title.source.replace(there, planted, 1)
    return list(rule(notebook))


@pytest.mark.parametrize(
    ("number", "there", "planted", "said"),
    [
        ("00a", "**Needs** lesson 00", "**Needs** lesson 01", "needs lesson 01, which comes later"),
        (
            "01a",
            "**Needs** lesson 01",
            "**Needs** lesson 00",
            "does not say that it needs lesson 01",
        ),
        (
            "02",
            "**Needs** lesson 01",
            "**Needs** lesson 00",
            "does not say that it needs lesson 01",
        ),
        ("02a", "lesson 00 (shortcuts)", "lesson 00 (DyISRU)", "hardly speaks of it"),
        ("04", "lessons 01 to 03", "lessons 01 to 02", "does not say that it needs lesson 03"),
    ],
)
def test_a_wrong_need_is_seen(number, there, planted, said):
    assert not complaints(number, needs)
    assert any(said in line for line in complaints(number, needs, there, planted))


def test_an_objective_that_nobody_teaches_is_seen():
    assert not complaints("03", objectives)
    planted = "> - **prove** Banach's theorem for quaternion attention;\n> - **compute**"
    (said,) = complaints("03", objectives, "> - **compute**", planted)
    assert "Banach, theorem, quaternion" in said


def test_needs_are_read():
    title = "> **Needs** lessons 00 to 02, 05 and 06a (size, [x](a.md)), lesson 08 (DyT) · **Time**"
    assert [number for number, _ in needed(title)] == ["00", "01", "02", "05", "06a", "08"]
