"""The formulas on the slides hold, and what is planted in them shows."""

import pytest

from tests.deck_rules import DECKS, faults


@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.stem)
def test_the_formulas_of_a_deck_hold(path):
    found = list(faults(path.stem, path.read_text("utf-8")))
    assert not found, "\n".join(["", *found])


PLANTED = [
    ("03", r"(1 + 1 + 9 + 25)/4 = 9", r"(1 + 1 + 9 + 25)/4 = 8", "the right side 8"),
    ("03", r"$\sqrt{9} = 3$", "$3$", "a number without a formula"),
    ("03", r"\tfrac{5}{3}", r"\tfrac{4}{3}", "is not true"),
    ("00", r"\tfrac{1}{2}\, n", r"\tfrac{1}{3}\, n", "is not true"),
    ("05", r"y' = (y / x) (1 - y", r"y' = (y / x) (1 + y", "is not true"),
    ("08", "m = 2,", "m = 3,", "is not true"),
    ("07", "t \\geq", "\\zeta \\geq", "zeta"),
]


@pytest.mark.parametrize(("deck", "there", "planted", "said"), PLANTED)
def test_what_is_planted_shows(deck, there, planted, said):
    (path,) = (path for path in DECKS if path.stem.startswith(deck))
    text = path.read_text("utf-8")
    assert there in text
    found = list(faults(path.stem, text.replace(there, planted)))
    assert any(said in line for line in found), found
