"""Every term of the glossary is in a lesson."""

import pytest

from editions import terms
from tools import glossary as tool

TERMS = terms.terms()
LESSONS = tool.lessons()
RENEW = "edit notebooks/reference/glossary.yaml, then run: make pages"


def test_there_are_a_hundred_terms_and_none_twice():
    names = [term["en"].lower() for term in TERMS]
    assert len(names) >= 100
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term["en"])
def test_a_term_is_in_a_lesson(term):
    assert term.keys() <= {"en", "zh", "seen", "note", "warning", "lesson"}
    assert term.get("lesson", "00") in LESSONS
    assert tool.first_lesson(term, LESSONS), (
        f"no lesson has {terms.form(term)!r}: give a form that one has as `seen`; {RENEW}"
    )


def test_terms_are_found_as_words():
    texts = {"00": "re-scaling the layers", "01": "A unit\nvector, scaled"}
    found = {
        word: tool.first_lesson({"en": word}, texts)
        for word in ("layer", "scale", "unit vector", "caling")
    }
    assert found == {"layer": "00", "scale": "01", "unit vector": "01", "caling": None}
