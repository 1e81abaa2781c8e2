"""The table "How sure is this?" of lesson 01a: its nets at other widths and for more steps."""

import pytest
import torch

from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

LESSON = "01a_batch_norm_at_work.ipynb"
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
    return run_cells(LESSON, *cells)


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
def test_one_size_for_a_layer_is_enough_at_the_rate_1_once_the_means_are_subtracted(kind):
    lesson = definitions()
    learn = lesson["learn"]
    _, one = learn(lesson["OneSize"], 1.0, **KINDS[kind])
    _, centred = learn(lesson["CentredSize"], 1.0, **KINDS[kind])
    assert centred.min() > 0.8
    assert one.max() < centred.min()


@pytest.mark.slow
def test_at_the_rate_3_one_size_and_lengths_held_are_behind_batch_norm():
    lesson = definitions()
    learn = lesson["learn"]
    _, whole = learn(lesson["BatchNorm"], 3.0)
    _, centred = learn(lesson["CentredSize"], 3.0)
    assert centred.max() < whole.min()
    _, held = learn(lesson["BatchNorm"], 3.0, hold=lesson["hold_lengths"])
    assert held.mean() < whole.min()


@pytest.mark.slow
def test_centring_without_a_size_fails_in_some_starts():
    lesson = definitions()

    class Centred(lesson["BatchNorm"]):
        def statistics(self, x):
            mean, var = super().statistics(x)
            return mean, torch.ones_like(var)

    _, reached = lesson["learn"](Centred, 1.0)
    assert reached.min() < 0.2
    assert reached.max() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("width", [48, 192])
def test_the_gradient_grows_by_about_a_fifth_per_layer_at_other_widths(width):
    lesson = run_cells(LESSON, "setup", ("depth-run", "nothing = "))
    sizes = lesson["gradient_norms"](lesson["normalize"], 1.0, 0, width=width, batch=width)
    assert 1.15 < sizes[0] ** (1 / lesson["DEPTH"]) < 1.25


@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_two_samples_are_drawn_apart_by_at_most_one_over_the_root_of_eps(eps):
    normalize = run_cells(LESSON, "setup")["normalize"]
    apart = torch.logspace(-6, 2, 17)
    pairs = torch.stack([torch.zeros(17), apart])
    (grows,) = normalize(pairs, eps).diff(dim=0) / apart
    torch.testing.assert_close(grows.max(), torch.tensor(eps**-0.5))
