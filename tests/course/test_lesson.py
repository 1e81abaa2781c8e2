"""normcourse/lesson.py reads what a lesson holds: small notebooks, and one real lesson."""

import base64
import json
from pathlib import Path

import pytest

from normcourse.lesson import Minutes, Notebook, UnknownName, outside_folds

LESSON = Path(__file__).parents[2] / "notebooks" / "02_layer_norm.ipynb"
ALT = "Two lines that\ncross at [3, 4]."


def text(name, *lines, tags=()):
    metadata = {"tags": list(tags)} if tags else {}
    return {"cell_type": "markdown", "id": name, "metadata": metadata, "source": list(lines)}


def code(name, source, *outputs):
    cell = {"cell_type": "code", "id": name, "metadata": {}, "execution_count": 1}
    return cell | {"source": source, "outputs": list(outputs)}


def notebook(*cells, name="notebooks/03_toy.ipynb"):
    return Notebook(Path(name), json.dumps({"cells": cells, "nbformat": 4}))


def with_words(*words):
    return notebook(text("words", *words))


STREAM = {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]}
ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["trace"]}
PICTURE = {
    "output_type": "display_data",
    "data": {"image/png": base64.b64encode(b"png").decode(), "text/plain": ["figure: 1 ", "axes"]},
    "metadata": {"image/png": {"alt": ALT, "width": 620, "panels": [[0, 0, 10, 10]]}},
}
CAPTION = {
    "output_type": "display_data",
    "data": {"text/markdown": "*Two lines that cross at \\[3, 4\\].*"},
    "metadata": {},
}


def test_cells_by_name_with_their_text_in_one_piece():
    lesson = notebook(text("title", "# 03 · Toy\n", "\n", "Words.", tags=["derivation"]))
    assert lesson.cell("title").source == "# 03 · Toy\n\nWords."
    assert lesson.cell("title").tags == ["derivation"]
    assert (lesson.title, lesson.number, lesson.name) == ("03 · Toy", "03", "03_toy")
    with pytest.raises(UnknownName, match=r"03_toy.ipynb has no cell 'titel'; near it: title"):
        lesson.cell("titel")


def test_evidence_goes_from_its_heading_to_the_end():
    cells = [text("words", "## Evidence of this"), code("run", "## Evidence")]
    assert notebook(*cells).evidence == []
    lesson = notebook(*cells, text("sure", "## Evidence\n", "\n", "<details>"), code("more", ""))
    assert [cell.id for cell in lesson.evidence] == ["sure", "more"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("notebooks/03b_toy.ipynb", "lesson"),
        ("notebooks/solutions/03_toy.ipynb", "solutions"),
        ("notebooks/toy.ipynb", "other"),
    ],
)
def test_the_kind_of_a_notebook(name, kind):
    assert notebook(name=name).kind == kind


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<<<<<<< mine",
        "[]",
        "{}",
        '{"cells": [3]}',
        '{"cells": [{"cell_type": "code"}]}',
        b"\xff",
    ],
)
def test_what_is_no_notebook_is_a_value_error(content):
    with pytest.raises(ValueError, match=r"03_toy.ipynb is no notebook"):
        Notebook(Path("03_toy.ipynb"), content)


def test_outputs():
    cell = notebook(code("run", "x", STREAM, PICTURE, CAPTION, ERROR)).cell("run")
    assert cell.printed == "one\ntwo\nValueError: no\n"
    (picture,) = cell.pictures
    assert (picture.png, picture.alt, picture.width) == (b"png", ALT, 620)
    assert picture.panels == ((0, 0, 10, 10),)
    assert cell.captions == [False, False, True, False]
    assert [output.fingerprint for output in cell.outputs] == ["", "figure: 1 axes", "", ""]
    assert [output.is_caption for output in cell.outputs] == [False, False, True, False]
    assert cell.outputs[3].texts == ["", "no", "trace"]


@pytest.mark.parametrize(
    ("heading", "title", "minutes", "is_open"),
    [
        ("**3. A title** · 10 minutes", "A title", 10, False),
        ("**3. A title** · 10 minutes · open: many are right", "A title", 10, True),
        ("**3. A title** · difficulty ●●○○○ · 10 minutes", "A title", 10, False),
        ("**3. Is $2.5$ *open*?** · importance ●○○○○ · 10 minutes", "Is $2.5$ *open*?", 10, False),
        ("**3. T** · difficulty ●○○○○ · importance ●○○○○ · 7 minutes · open", "T", 7, True),
    ],
)
def test_the_heading_of_an_exercise(heading, title, minutes, is_open):
    (exercise,) = with_words(f"Before.\n\n{heading}\n\nDo it.").exercises
    assert (exercise.number, exercise.title) == (3, title)
    assert (exercise.minutes, exercise.is_open) == (minutes, is_open)
    assert (exercise.heading, exercise.statement.strip()) == (heading, "Do it.")


@pytest.mark.parametrize(
    "line",
    [
        "**3. A title**",
        "**3. A title.** Because.",
        "**A title** · 10 minutes",
        "3. It · 10 minutes",
    ],
)
def test_what_is_no_heading_of_an_exercise(line):
    assert with_words(line).exercises == []


HINT = "<details><summary>Hint</summary>\n\nThink.\n\n</details>"
TWO = f"""**1. One** · 5 minutes

First.

{HINT}

Solution: [here](solutions/03_toy.ipynb).

**2. Two** · 6 minutes

Second.

## A section

No task."""


def test_what_belongs_to_an_exercise():
    lesson = notebook(
        text("both", TWO),
        code("ex1-data", "x = 1"),
        code("ex1-stub", "answer = None"),
        code("ex1-check", "check.one(answer)\ncheck.another(answer)"),
    )
    one, two = lesson.exercises
    assert one.cell is two.cell is lesson.cell("both")
    assert one.statement.split() == ["First."]
    assert one.hints == HINT
    assert (one.stub.source, one.checks) == ("answer = None", {"one", "another"})
    assert (two.statement.strip(), two.hints, two.stub) == ("Second.", "", None)
    assert two.checks == set()


def test_the_answer_to_a_prediction_goes_from_its_first_cell_to_its_last():
    names = ["predict-01", "predict-01-answer", "aside", "predict-01-read-why", "next"]
    lesson = notebook(*(text(name) for name in [*names, "predict-2-read"]))
    first, second = lesson.predictions
    assert [cell.id for cell in first.cells] == names[1:4]
    assert (first.number, first.end, second.number, second.end) == ("01", 4, "2", 6)


def test_formulas():
    lesson = with_words("**[EQ-LN-GRAD]**\n$$\nx = 1\n$$\n\n$$\ny\n$$\n\n$z$")
    assert lesson.formulas == {"EQ-LN-GRAD": "x = 1"}
    assert lesson.cell("words").displayed == ["x = 1", "y"]
    with pytest.raises(UnknownName, match=r"no formula 'EQ-LN'; near it: EQ-LN-GRAD"):
        lesson.formula("EQ-LN")


def test_what_stands_outside_of_folds():
    folds = "One.<details>two</details> Three.<details>\n<summary><b>S</b></summary>4</details>"
    assert outside_folds(folds) == "One. Three."


def test_the_minutes_that_a_title_says():
    said = "# Toy\n\n**Time:** core 45 minutes, with the exercises 90 (full path)"
    assert with_words(said).minutes == Minutes(45, 90)
    assert with_words("# Toy\n\nAn hour.").minutes is notebook().minutes is None


def test_what_is_written_again_is_the_same():
    lesson = Notebook(LESSON)
    assert lesson.with_cells(lesson.cells) == LESSON.read_bytes()
    changed = lesson.cells[0].changed(source="# 02")
    assert Notebook(LESSON, lesson.with_cells([changed])).cells[0].source == "# 02"
    assert lesson.cells[0].source != "# 02"


def test_a_real_lesson():
    lesson = Notebook(LESSON)
    numbers = [exercise.number for exercise in lesson.exercises]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 1
    for exercise in lesson.exercises:
        assert exercise.statement.strip() and exercise.stub and len(exercise.checks) == 1
    assert lesson.predictions and "EQ-LN" in lesson.formulas
    assert all(prediction.cells[0].id.endswith("-answer") for prediction in lesson.predictions)
    alts = [picture.alt for cell in lesson.cells for picture in cell.pictures]
    assert len(alts) > 1 and all(alts)
