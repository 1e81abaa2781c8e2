"""The sheets for the room have every task of a lesson, and nothing that gives an answer away."""

import json
import re

import pytest

from editions import prepare
from editions.exercises import sheet

LESSONS = pytest.mark.parametrize("lesson", prepare.main_road(), ids=lambda lesson: lesson.name)


@LESSONS
def test_every_task_and_no_hint(lesson):
    text = sheet(lesson)
    tasks = re.findall(r"^\*\*(\d+)\. ", text, re.M)
    in_lesson = re.findall(
        r"^\*\*(\d+)\. .+\*\* · difficulty", "\n".join(lesson.markdown.values()), re.M
    )
    assert tasks == in_lesson
    assert len(tasks) >= 3
    assert "<details>" not in text
    assert "Hint" not in text
    assert text.count("```python") >= len(tasks) - 1


def test_a_hint_is_left_out_and_a_stub_kept(tmp_path):
    cells = [
        (
            "markdown",
            "ex1",
            "## A\n\n**1. T** · difficulty ● \n\nDo.\n\n<details>Hint: 5</details>",
        ),
        ("code", "ex1-stub", "answer = None"),
        ("markdown", "after", "The answer is 5."),
    ]
    stored = [
        {"cell_type": kind, "id": name, "source": source, "metadata": {}}
        for kind, name, source in cells
    ]
    path = tmp_path / "09_toy.ipynb"
    path.write_text(json.dumps({"cells": stored}), "utf-8")
    text = sheet(prepare.Notebook(path))
    assert "Do." in text
    assert "answer = None" in text
    assert "5" not in text
