"""Lesson 05a's table "How sure is this?": what no cell of the lesson shows."""

import pytest
import torch

from normcourse import draw
from tests.course.lesson_tables import each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

KINDS = {
    "as in the lesson": {},
    "rate 0.003": {"rate": 0.003},
    "rate 0.01": {"rate": 0.01},
    "rate 0.1": {"rate": 0.1},
    "rate 0.3": {"rate": 0.3},
    "half the width": {"width": 8},
    "twice the width": {"width": 32},
    "four times the steps": {"steps": 1200},
    "SGD": {"kind": torch.optim.SGD, "rate": 1.0},
    "other problems": {},
}
EACH = each(KINDS)
# in how many of five problems cap 3 is overrun, at least and at most
OVERRUN = {
    24: {"rate 0.003": (0, 0), "half the width": (0, 0)},
    64: {"twice the width": (4, 4)},
}
LATE = {"rate 0.1", "rate 0.3"}  # a step adds more than a fifth
CAP = {"cap": 3.0}
PLAIN_RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


def definitions(kind: str = "") -> dict:
    """The lesson's own functions; nothing is trained."""
    cells = ("setup", "failure-train", "growth-define")
    clip = ("predict-03-answer", "VERSIONS[")
    remedies = ("again-run", "REMEDIES =")
    names = run_cells("05a_logits.ipynb", *cells, "ex5-stub", "ex5-check", clip, remedies)
    if kind == "other problems":
        names["draw"] = lambda *shape, seed=0: draw(*shape, seed=seed + 40)
    return names


@pytest.fixture(scope="module")
def ends():
    """{remedy: (largest logits, losses) of five problems} for (tokens, kind), trained once each."""
    known: dict = {}

    def of(tokens: int, kind: str) -> dict:
        if (tokens, kind) not in known:
            lesson = definitions(kind)
            remedies = {
                "no cap": {},
                "cap 3": CAP,
                "QK-clip": {"after_step": lesson["clipped"](10.0)},
                "QK-norm": {"qk_norm": True},
            }
            known[tokens, kind] = {}
            for name, options in remedies.items():
                largest, losses, _ = lesson["growth"](tokens, **options, **KINDS[kind])
                known[tokens, kind][name] = (largest[-1], losses)
        return known[tokens, kind]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize("tokens", [24, 64])
def test_a_cap_of_3_is_overrun_with_24_tokens(ends, tokens, kind):
    found = ends(tokens, kind)
    usual = (4, 5) if tokens == 24 else (0, 0)
    least, most = OVERRUN[tokens].get(kind, usual)
    overrun = (found["cap 3"][0] > found["no cap"][0]).sum()
    assert least <= overrun <= most


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize("tokens", [24, 64])
def test_qk_clip_ends_a_little_above_its_threshold(ends, tokens, kind):
    found = ends(tokens, kind)
    clipped = found["QK-clip"][0] / 10
    assert (clipped > 1).all()
    assert (found["no cap"][0] > 1.3 * found["QK-clip"][0]).all()
    if kind in LATE:
        assert clipped.max() < (1.45 if tokens == 24 else 1.9)
    else:
        above = (clipped > 1.2).sum()
        assert above == (1 if (tokens, kind) == (64, "twice the width") else 0)


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize("tokens", [24, 64])
def test_qk_norm_is_below_no_cap_and_has_a_smaller_loss_than_qk_clip(ends, tokens, kind):
    found = ends(tokens, kind)
    assert (found["QK-norm"][0] < found["no cap"][0]).all()
    assert (found["QK-norm"][1] < found["QK-clip"][1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"width": 32}, {}, {"width": 128}, {"steps": 600}], ids=str)
def test_the_best_plain_problem_is_worse_than_the_worst_divided_one(how):
    lesson = definitions()
    train = lesson["train_attention"]
    errors = {rate: train(lesson["raw"], rate, **how)[0] for rate in PLAIN_RATES}
    worst = train(lesson["divided"], 0.003, **how)[0].max()
    assert min(error.min() for error in errors.values()) > 2 * worst
    root = (how.get("width", 64) ** 0.5) ** 0.5
    small = train(lesson["raw"], 0.001, start=1 / root, **how)[0]
    large = [train(lesson["divided"], rate, start=root, **how)[0] for rate in (1e-3, 3e-3, 1e-2)]
    assert min(error.min() for error in large) > 2 * small.max()
    if not how:
        assert min(errors, key=lambda rate: errors[rate].mean()) == 0.001  # the lesson's
