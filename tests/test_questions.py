"""questions.md: each question has an answer, and sections that exist."""

import re

import pytest

from tools import reference

PAGE = (reference.REFERENCE / "questions.md").read_text("utf-8")
QUESTIONS = re.findall(r"^### (.+)\n\n((?:(?!#|→).*\n)+)→ (.+)$", PAGE, re.M)
PLACE = re.compile(r"\[(\d\d[a-z]?) · ([^]]+)\]\(\.\./([^#)]+)#([^)]+)\)")


def test_each_question_has_an_answer_and_a_place():
    asked = re.findall(r"^### (.+)$", PAGE, re.M)
    assert [question for question, *_ in QUESTIONS] == asked, "a question needs an answer and → …"
    assert all(PLACE.search(places) for _, _, places in QUESTIONS)


def faults(places: str) -> list[str]:
    found = []
    for number, words, lesson, anchor in PLACE.findall(places):
        headings = reference.headings(reference.REFERENCE.parent / lesson)
        if anchor not in [heading.replace(" ", "-") for heading in headings]:
            found.append(f"{lesson} has no section {anchor}")
        if not lesson.startswith(f"{number}_") or words.replace(" ", "-") != anchor:
            found.append(f"{number} · {words} leads to {lesson}#{anchor}")
    return found


@pytest.mark.parametrize(("question", "places"), [(q, places) for q, _, places in QUESTIONS])
def test_its_sections_are_named_rightly(question, places):
    assert faults(places) == []


@pytest.mark.parametrize(
    ("there", "planted", "says"),
    [
        ("[00 ·", "[01 ·", "leads to"),
        ("· Two repairs", "· Neither", "leads to"),
        ("#Two-repairs", "#Gone", "no section Gone"),
    ],
)
def test_a_place_that_is_wrong_is_seen(there, planted, says):
    places = next(places for _, _, places in QUESTIONS if "#Two-repairs" in places)
    assert there in places
    assert any(says in fault for fault in faults(places.replace(there, planted)))
