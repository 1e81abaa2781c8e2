"""The table "How sure is this?" of lesson 01a: its nets at other widths and for more steps."""

import pytest

from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

KINDS = {
    OWN: {},
    "half the width": {"width": 16},
    "twice the width": {"width": 64},
    "four times the steps": {"steps": (120, 360)},
}
NARROW = "half the width"


def definitions() -> dict:
    """The lesson's layers and its training; nothing is trained."""
    training = ("predict-01-answer", "def span(")
    cells = ("setup", "failure-layer", training, "drifts", "others")
    return run_cells("01a_batch_norm_at_work.ipynb", *cells)


@pytest.mark.slow
@pytest.mark.parametrize("kind", each(KINDS))
def test_the_layer_that_saves_memory_learns_worse_than_batch_norm(kind):
    lesson = definitions()
    learn = lesson["learn"]
    _, broken = learn(lesson["SavesMemory"], **KINDS[kind])
    _, whole = learn(lesson["BatchNorm"], **KINDS[kind])
    assert broken.max() < whole.min()
    if kind != NARROW:  # there it is no worse than no norm
        _, without = learn(None, **KINDS[kind])
        assert broken.max() < without.min()


@pytest.mark.slow
def test_after_four_times_the_steps_it_comes_close_at_the_rate_1():
    lesson = definitions()
    _, late = lesson["learn"](lesson["SavesMemory"], 1.0, steps=(60, 420))
    assert late.min() > 0.87


@pytest.mark.slow
@pytest.mark.parametrize("kind", each(KINDS))
def test_batch_norm_bears_the_rate_1_with_a_shift_and_with_lengths_held(kind):
    lesson = definitions()
    learn = lesson["learn"]
    _, without = learn(None, 1.0, **KINDS[kind])
    assert without.max() < 0.3
    for norm in ("BatchNorm", "Drifts"):
        _, reached = learn(lesson[norm], 1.0, **KINDS[kind])
        assert reached.min() > (0.35 if kind == NARROW and norm == "Drifts" else 0.8)
    _, held = learn(lesson["BatchNorm"], 1.0, hold=lesson["hold_lengths"], **KINDS[kind])
    assert held.min() > 0.75


@pytest.mark.parametrize("kind", each(KINDS))
def test_one_size_for_a_layer_is_not_enough_at_the_rate_1(kind):
    lesson = definitions()
    learn = lesson["learn"]
    _, one = learn(lesson["OneSize"], 1.0, **KINDS[kind])
    _, whole = learn(lesson["BatchNorm"], 1.0, **KINDS[kind])
    assert one.max() < whole.min()
