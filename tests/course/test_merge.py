"""An update of a lesson keeps what the reader wrote in it: ten kinds of change, and damage."""

import json
from pathlib import Path

import nbformat
import pytest

from normcourse.lesson import Notebook
from tools import learner, merge

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSON = NOTEBOOKS / "02_layer_norm.ipynb"
GIVEN = learner.learners_form(LESSON)
CELLS = list(Notebook(LESSON).by_id)
STUB, OTHER_STUB = [name for name in CELLS if name.endswith("-stub")][:2]
GUESS = "predict-01"
TITLE = CELLS[0]
CODE = next(cell.id for cell in Notebook(LESSON).cells[5:] if cell.cell_type == "code")


def texts(content):
    return {cell.id: cell.source for cell in Notebook(LESSON, content).cells}


def edited(content, change):
    """The notebook after a change of its list of cells."""
    notebook = json.loads(content)
    change(notebook["cells"])
    return json.dumps(notebook).encode()


def write(**new):
    """A change that writes other texts into cells, id by id."""

    def change(cells):
        for cell in cells:
            cell["source"] = new.get(cell["id"].replace("-", "_"), cell["source"])

    return change


def drop(*names):
    def change(cells):
        cells[:] = [cell for cell in cells if cell["id"] not in names]

    return change


def add(place, name, source):
    def change(cells):
        cells.insert(place, nbformat.v4.new_code_cell(source, id=name))

    return change


def move_to_the_end(name):
    def change(cells):
        cells.sort(key=lambda cell: cell["id"] == name)  # the others keep their order

    return change


def in_python(name):
    return name.replace("-", "_")


ANSWER = {in_python(STUB): "def my_answer(): ..."}
ANSWERED = edited(GIVEN, write(**ANSWER))


def update(mine, newest):
    return merge.merge(mine, newest, merge.signatures(GIVEN))


@pytest.mark.parametrize(
    "course",
    [
        write(**{in_python(TITLE): "# Another title"}),
        write(**{in_python(STUB): "def my_answer():\n    raise NotImplementedError  # anew"}),
        move_to_the_end(STUB),
        add(3, "a-new-cell", "print(1)"),
        drop(OTHER_STUB, CODE),
    ],
    ids=["title", "the stub itself", "stub moved", "new cell", "cells dropped"],
)
def test_an_answer_stays_where_its_stub_is_whatever_the_course_changed(course):
    newest = edited(GIVEN, course)
    found = update(ANSWERED, newest)
    expected = texts(newest) | {STUB: ANSWER[in_python(STUB)]}
    assert texts(found.content) == expected
    assert list(texts(found.content)) == list(texts(newest))  # the course's order
    assert (found.placed, found.left) == ([STUB], [])
    nbformat.validate(nbformat.reads(found.content.decode(), as_version=4))


def test_a_guess_and_a_change_of_a_cell_that_the_course_left_alone_stay():
    mine = edited(GIVEN, write(**{in_python(GUESS): "my_prediction = 3", in_python(CODE): "2 + 2"}))
    found = update(mine, edited(GIVEN, write(**{in_python(TITLE): "# Another"})))
    shown = texts(found.content)
    assert (shown[GUESS], shown[CODE], shown[TITLE]) == ("my_prediction = 3", "2 + 2", "# Another")
    assert sorted(found.placed) == sorted([GUESS, CODE])


def test_where_both_changed_a_cell_the_course_s_is_shown_and_the_reader_s_named():
    found = update(
        edited(GIVEN, write(**{in_python(CODE): "mine"})),
        edited(GIVEN, write(**{in_python(CODE): "theirs"})),
    )
    assert texts(found.content)[CODE] == "theirs"
    assert (found.placed, found.left) == ([], [CODE])


def test_an_answer_to_an_exercise_that_is_gone_is_named():
    found = update(ANSWERED, edited(GIVEN, drop(STUB)))
    assert (found.placed, found.left) == ([], [STUB])


def test_an_answer_is_not_put_below_another_question_that_took_its_id():
    newest = edited(GIVEN, write(**{in_python(STUB): "def another():\n    raise ValueError"}))
    found = update(ANSWERED, newest)
    assert texts(found.content) == texts(newest)
    assert (found.placed, found.left) == ([], [STUB])


def test_own_cells_come_behind_the_cell_that_they_followed():
    place = CELLS.index(CODE) + 1
    mine = edited(edited(GIVEN, add(place, "own-1", "a = 1")), add(place + 1, "own-2", "b = 2"))
    mine = edited(mine, add(0, "own-0", "first"))
    found = update(mine, edited(GIVEN, add(3, "a-new-cell", "print(1)")))
    names = list(texts(found.content))
    assert names[0] == "own-0"
    assert names[names.index(CODE) :][:3] == [CODE, "own-1", "own-2"]
    assert found.placed == ["own-0", "own-1", "own-2"]


def test_behind_a_cell_that_is_gone_an_own_one_comes_behind_the_cell_before():
    place = CELLS.index(CODE)
    mine = edited(GIVEN, add(place + 1, "own", "a = 1"))
    found = update(mine, edited(GIVEN, drop(CODE)))
    names = list(texts(found.content))
    assert names[names.index("own") - 1] == CELLS[place - 1]


def test_cells_that_the_reader_deleted_or_emptied_come_back():
    mine = edited(edited(GIVEN, drop(TITLE)), write(**{in_python(STUB): " \n"}))
    found = update(mine, GIVEN)
    assert texts(found.content) == texts(GIVEN)
    assert (found.placed, found.left) == ([], [])


def test_outputs_of_a_placed_cell_are_kept():
    output = nbformat.v4.new_output("stream", text="42\n")

    def run(cells):
        for cell in cells:
            if cell["id"] == STUB:
                cell["outputs"] = [output]

    found = update(edited(ANSWERED, run), GIVEN)
    assert Notebook(LESSON, found.content).cell(STUB).stored["outputs"] == [output]


@pytest.mark.parametrize(
    "mine",
    [
        b"no notebook",
        b"[]",
        b'{"cells": [{"cell_type": "code", "source": "1"}]}',
        b'{"cells": [{"id": "a"}]}',
        edited(GIVEN, add(0, CODE, "twice")),
    ],
    ids=["no JSON", "a list", "no ids", "no source", "an id twice"],
)
def test_what_cannot_be_compared_is_refused(mine):
    with pytest.raises(ValueError):
        update(mine, GIVEN)


def test_the_lab_s_update_places_answers_and_names_what_is_left(tmp_path):
    course = tmp_path / "notebooks"
    course.mkdir()
    stored = LESSON.read_bytes()
    (course / LESSON.name).write_bytes(stored)
    target = tmp_path / "my"
    learner.renew(course, target)
    mine = target / LESSON.name
    mine.write_bytes(edited(mine.read_bytes(), write(**ANSWER, **{in_python(CODE): "mine"})))
    change = {in_python(TITLE): "# Another title", in_python(CODE): "theirs"}
    (course / LESSON.name).write_bytes(edited(stored, write(**change)))
    news = learner.renew(course, target)
    shown = texts(mine.read_bytes())
    assert (shown[STUB], shown[TITLE]) == (ANSWER[in_python(STUB)], "# Another title")
    assert texts((target / "02_layer_norm.old.ipynb").read_bytes())[CODE] == "mine"
    assert learner.announcement(news, course, target) == [
        "A newer edition of the course: 02_layer_norm renewed.",
        "The cells that you wrote are in it: my/02_layer_norm.ipynb (1).",
        f"No place in it have {CODE}: kept in my/02_layer_norm.old.ipynb.",
    ]
    assert learner.renew(course, target) == learner.News()
    again = edited(edited(stored, write(**change)), drop(OTHER_STUB))
    (course / LESSON.name).write_bytes(again)  # the next update places the answer again
    assert learner.renew(course, target).merged == {LESSON.name: 1}
    assert texts(mine.read_bytes())[STUB] == ANSWER[in_python(STUB)]
