"""The sheets for the room: every task with what it speaks of and with room to write, no answer."""

import json
import re

import pytest
import yaml

from editions import exercises
from editions.equations import Equation, equations
from editions.prepare import NOTEBOOKS
from normcourse.lesson import Notebook, UnknownName

LESSONS = [Notebook(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
KNOWN = equations(NOTEBOOKS / "reference" / "equations.md")
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


def solved(lesson):
    return Notebook(NOTEBOOKS / "solutions" / lesson.path.name)


@each_lesson
def test_every_task_and_nothing_that_gives_an_answer_away(lesson):
    text = exercises.sheet(lesson, KNOWN)
    tasks = re.findall(r"^\*\*(\d+)\. ", text, re.M)
    assert tasks == [str(exercise.number) for exercise in lesson.exercises]
    assert len(tasks) >= 2
    for answer in ("<details", "Hint", "Solution:", "raise NotImplementedError"):
        assert answer not in text
    assert text.count("```python") >= len(tasks) - 1
    assert text.count('<div class="rules"') >= len(tasks)


@each_lesson
def test_the_solution_sheet_has_words_and_code_for_every_task(lesson):
    text = exercises.solution_sheet(lesson, solved(lesson))
    assert not re.search(r"^check\.", text, re.M)
    for each in lesson.exercises:
        assert exercises.task(each) in text
        parts = exercises.solution(solved(lesson), each.number)
        assert any(part.startswith("```python") for part in parts)
        assert any(not part.startswith("```") and len(part.split()) > 3 for part in parts)


ELSEWHERE = re.compile(
    r"\b(?:as above|the (?:count|derivation|tables?|cells?) (?:above|below)|its cell|step \d's)\b"
)


def test_a_task_that_speaks_of_another_place_has_it_on_its_sheet():
    """What it speaks of is on the list: on paper nothing else stands above or below."""
    listed = yaml.safe_load(exercises.LIST.read_text("utf-8"))
    pointing = [
        (lesson.name, each.number)
        for lesson in LESSONS
        for each in lesson.exercises
        if ELSEWHERE.search(exercises.task(each))
    ]
    assert pointing  # such as: the count above
    assert [place for place in pointing if place[1] not in listed.get(place[0], {})] == []


def test_what_the_list_names_is_there():
    lessons = {lesson.name: lesson for lesson in LESSONS}
    for name, listed in yaml.safe_load(exercises.LIST.read_text("utf-8")).items():
        numbers = [each.number for each in lessons[name].exercises]
        assert set(listed) <= set(numbers), name


TASK = """## Two ways

**1. T** · difficulty ● · importance ● · 6 minutes

Do as `named(x)` does, by EQ-RMS. Write it in the place of each `None`.

<details><summary>Hint</summary>

The hint is 5.

</details>

[Solution](solutions/09_toy.ipynb): later"""
CELLS = [
    ("markdown", "title", "# 09 · A toy"),
    ("code", "helpers", "@once\ndef named(x):\n    return x\n\n\ndef other(x):\n    return 0"),
    ("markdown", "table", "Above.\n\n| a | b |\n| - | - |\n\nBelow."),
    ("markdown", "ex1", TASK),
    ("code", "ex1-stub", "def f(x):\n    raise NotImplementedError\n\n\nnumber = None  # of 400"),
    ("markdown", "after", "The answer is 5."),
]
SOLVED = [
    ("markdown", "ex1", "**1. T.** Because it is so."),
    ("code", "ex1-solution", "def f(x):\n    return 5"),
    ("code", "ex1-check", "check.f(f)"),
    ("markdown", "ex10", "**10. U.** Of another one."),
]


def toy(folder, cells):
    stored = [
        {"cell_type": kind, "id": name, "source": source, "metadata": {}}
        for kind, name, source in cells
    ]
    path = folder / "09_toy.ipynb"
    path.write_text(json.dumps({"cells": stored}), "utf-8")
    return Notebook(path)


@pytest.fixture
def sheet(tmp_path, monkeypatch):
    """The sheet of the toy, with these pieces on the list."""
    monkeypatch.setattr(exercises, "LIST", tmp_path / "sheets.yaml")

    def made(*pieces):
        exercises.LIST.write_text(yaml.safe_dump({"09_toy": {1: list(pieces)}}), "utf-8")
        return exercises.sheet(toy(tmp_path, CELLS), {"EQ-RMS": Equation("a", "a = 1")})

    return made


def test_a_sheet_shows_what_its_tasks_name(sheet):
    text = sheet({"words": "table", "from": "| a"})
    assert "@once\ndef named(x):\n    return x\n```" in text
    assert "EQ-RMS:\n\n$$\na = 1\n$$" in text
    assert "| a | b |\n| - | - |" in text
    for not_asked in ("other", "Above.", "Below.", "5", "later"):
        assert not_asked not in text.partition('<div class="rules"')[0]


def test_a_stub_is_completed_by_pen(sheet):
    _, _, room = sheet().partition("def f(x):")
    lines, rest = room.split("```python")
    assert lines.count("<hr>") == 6  # one a minute
    assert "number = ________  # of 400" in rest
    assert "Write it on each blank line." in sheet()


def test_a_sheet_shows_the_page_that_its_task_links_to(sheet, tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "primer.md").write_text(
        "No. End.\n\nSeparate.\n\nEnd.\n\nNo.", "utf-8"
    )
    text = sheet({"reference": "primer.md", "from": "Separate", "to": "End"})
    assert "\n\nSeparate.\n\nEnd.\n\n" in text
    assert "No." not in text
    with pytest.raises(UnknownName, match=r"reference/primer.md: 'nowhere'"):
        sheet({"reference": "primer.md", "from": "nowhere"})


def test_a_stub_whose_fault_lies_further_up_is_printed_whole():
    stub = "x = 1  # something is missing here\nraise NotImplementedError  # take this out\ny = 2"
    code, lines = exercises.room(stub, 5)
    assert code == "```python\nx = 1  # something is missing here\ny = 2\n```"
    assert lines.count("<hr>") == 5


@pytest.mark.parametrize(
    "piece",
    [
        {"words": "table", "from": "nowhere"},
        {"words": "no-such-cell", "from": "| a"},
        {"function": "nobody"},
        {"formula": "EQ-LN"},
        {"picture": "table"},
    ],
)
def test_a_piece_that_the_lesson_lacks_is_named(sheet, piece):
    with pytest.raises(UnknownName, match="09_toy"):
        sheet(piece)


def test_a_solution_has_no_check_and_nothing_of_another_exercise(tmp_path):
    parts = exercises.solution(toy(tmp_path, SOLVED), 1)
    assert parts == ["Because it is so.", "```python\ndef f(x):\n    return 5\n```"]
