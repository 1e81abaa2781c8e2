"""Roundings that a reader accepts pass, and the ones that he would not do not."""

import pytest

from tests.notebooks.stated_numbers import numbers_of, stated

TRUE = [  # what the text says, what an output shows
    ("accuracy 94%", "accuracy 0.9370"),
    ("accuracy 94%", "93.7 %"),
    ("0.94 of them", "93.7 % of the digits"),
    ("about 90%", "0.902"),
    ("over 90%", "0.937"),
    ("nearly nine of ten", "0.89"),
    ("roughly nine out of ten", "89 to 94 %"),
    ("nine in ten", "91%"),
    ("almost 38%", "37.6 %"),
    ("about 150", "149 of 400"),
    ("more than 100", "109 of 400"),
    ("fewer than 20", "17 of 20"),
    ("close to 2.3", "loss 2.303"),
    ("under 5%", "4.2 %"),
    ("around fifty", "47"),
    ("some fifty times", "52.1"),
    ("at least 0.9", "0.93"),
    ("at most 10 steps", "10 steps"),
    ("no more than 30", "28"),
    ("about 1e-12", "1.1e-12"),
    ("1.1e-12", "1.09e-12"),
    ("roughly 1,600 steps", "1584"),
    ("about a third", "0.34"),
    ("1/6", "0.167"),
    ("$\\approx 47$", "46.9"),
    ("a thousand times less", "0.001"),
    ("a fifth", "20 %"),
    ("sixty-four", "64"),
    ("nine of ten seeds", "9 of 10 seeds"),
]
FALSE = [
    ("accuracy 94%", "accuracy 0.9349"),
    ("accuracy 94%", "94.6 %"),
    ("about 90%", "0.78"),
    ("about 90%", "0.96"),
    ("over 90%", "0.88"),
    ("over 90%", "89.9 %"),
    ("over 90%", "100 steps"),
    ("nearly nine of ten", "0.94"),
    ("roughly nine out of ten", "0.8"),
    ("nine in ten", "0.82"),
    ("almost 38%", "38.2 %"),
    ("almost 38%", "31 %"),
    ("about 150", "119 of 400"),
    ("more than 100", "98 of 400"),
    ("more than 100", "186 of 400"),  # true, and misleading
    ("fewer than 20", "21"),
    ("close to 2.3", "loss 2.6"),
    ("under 5%", "5.1 %"),
    ("around fifty", "41"),
    ("at least 0.9", "0.89"),
    ("no more than 30", "31"),
    ("about 1e-12", "3e-12"),
    ("1.1e-12", "1.2e-12"),
    ("about a third", "0.38"),
    ("1/6", "0.2"),
    ("4 of 5 seeds", "3.9 and 5"),  # a count is not rounded
    ("0.94", "0.9"),  # the text knows more than the output
]


@pytest.mark.parametrize(("said", "output"), TRUE)
def test_a_true_rounding_is_backed(said, output):
    assert all(number.is_backed_by(numbers_of(output)) for number in stated(said))
    assert list(stated(said))


@pytest.mark.parametrize(("said", "output"), FALSE)
def test_a_false_rounding_is_not(said, output):
    assert not all(number.is_backed_by(numbers_of(output)) for number in stated(said))


def test_what_code_says_is_repeated_and_not_rounded():
    (number,) = stated("over 90%")
    assert number.is_backed_by(set(), {90.0})
    assert not number.is_backed_by(set(), {100.0})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Thirty layers of sixty-four, four thousand", [30, 64, 4000]),
        ("two of them, one, a third time, often", []),
        ("1,600 steps, issue #1048, x2, RMS-3", [1600]),
        ("two thirds, $1/6$, 3 of 10", [2 / 3, 1 / 6, 0.3]),
    ],
)
def test_which_numbers_a_text_states(text, values):
    assert [number.value for number in stated(text)] == pytest.approx(values)
