"""The table "How sure is this?" of lesson 03a: the bare exchange in nets of other widths."""

import pytest

from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


@pytest.mark.slow  # the lesson trains five nets of its own width
@pytest.mark.parametrize("width, costly", [(16, 4), (64, 0)])
def test_the_bare_exchange_costs_most_where_the_net_is_narrow(width, costly):
    cells = ("setup", "exchange-swap", ("exchange-run", "trained = ["))
    lesson = run_cells("03a_rms_norm_in_models.ipynb", *cells)
    right = lesson["right"]
    nets = [lesson["trained_with"](seed, width) for seed in range(5)]
    lost = [right(net) - right(lesson["swapped"](net)) for net in nets]
    assert sum(digits >= 10 for digits in lost) == costly
