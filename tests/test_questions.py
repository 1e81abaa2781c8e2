"""questions.md: each question has an answer, sections that exist, and the minutes they take."""

import re

import pytest

from tools import minutes
from tools.reference import REFERENCE

PAGE = (REFERENCE / "questions.md").read_text("utf-8")
QUESTIONS = re.findall(r"^### (.+)\n\n(.+)\n\n→ (.+)$", PAGE, re.M)
PLACE = re.compile(r"\[(\d\d[a-z]?) · ([^]]+)\]\(\.\./([^#)]+)#([^)]+)\), (\d+) minutes?")
WITHIN = 0.25  # of what tools/minutes.py computes, and 3 minutes at least


def test_each_question_has_an_answer_and_a_place():
    assert len(QUESTIONS) == PAGE.count("\n### ")
    assert all(PLACE.search(places) for _, _, places in QUESTIONS)


def faults(places: str) -> list[str]:
    found = []
    for number, words, lesson, anchor, said in PLACE.findall(places):
        section = minutes.of_section(REFERENCE.parent / lesson, anchor)
        if section is None:
            found.append(f"{lesson} has no section {anchor}")
        elif abs(section.whole - int(said)) > max(3, WITHIN * section.whole):
            found.append(f"{lesson}, {words}: says {said} minutes, takes {section.whole:.0f}")
        if not lesson.startswith(f"{number}_") or words.replace(" ", "-") != anchor:
            found.append(f"{number} · {words} leads to {lesson}#{anchor}")
    return found


@pytest.mark.parametrize(("question", "places"), [(q, places) for q, _, places in QUESTIONS])
def test_its_sections_are_named_rightly_and_take_these_minutes(question, places):
    assert faults(places) == []


@pytest.mark.parametrize(
    ("there", "planted", "says"),
    [
        ("14 minutes", "54 minutes", "says 54 minutes"),
        ("[00 ·", "[01 ·", "leads to"),
        ("· Both", "· Neither", "leads to"),
        ("#Both", "#Gone", "no section Gone"),
    ],
)
def test_a_place_that_is_wrong_is_seen(there, planted, says):
    places = next(places for _, _, places in QUESTIONS if "#Both" in places)
    assert there in places
    assert any(says in fault for fault in faults(places.replace(there, planted)))


def test_a_section_holds_the_sections_in_it():
    lesson = REFERENCE.parent / "01_batch_norm.ipynb"
    gradient, inside = (
        minutes.of_section(lesson, anchor).core for anchor in ("The-gradient", "One-bracket")
    )
    assert 0 < inside < gradient < minutes.of_lesson(lesson).core
