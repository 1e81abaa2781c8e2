"""The claims of lesson 01a: its networks at other widths and for more steps, and a conv net."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import training
from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

LESSON = "01a_batch_norm_at_work.ipynb"
NARROW = "half the width"
WIDTHS = {NARROW: 16, "twice the width": 64}
KINDS = [OWN, *WIDTHS, "four times the steps"]
SHALLOW = {"lr": 0.1, "depth": 2, "batch_size": 16, "steps": 100}
DEEP = {"depth": 6, "batch_size": 64, "lr": 0.1, "steps": 120}
LARGE_STEPS = DEEP | {"lr": 1.0, "steps": 70}


@pytest.fixture(scope="module")
def lesson() -> dict:
    parts = [(cell, "\n\n\nx = ") for cell in ("detached", "mild")]
    return run_cells(LESSON, "setup", "layer", *parts, "others", ("remeasure", "\n\n\nprint"))


def learn(norm, kind=OWN, *, lr, depth, batch_size, steps):
    nets = training.stacked_mlp(depth, norm, width=WIDTHS.get(kind, 32))
    steps = 4 * steps if kind == "four times the steps" else steps
    training.train_stacked(nets, training.digits(), steps=steps, lr=lr, batch_size=batch_size)
    return nets


def reached(nets) -> torch.Tensor:
    return training.stacked_accuracy(nets, training.digits())


def ends(norm, kind=OWN, **how) -> torch.Tensor:
    return reached(learn(norm, kind, **how))


@pytest.mark.parametrize("kind", each(KINDS))
def test_pairs_are_below_no_norm_and_new_statistics_do_not_rescue_them(lesson, kind):
    pairs = learn(partial(lesson["BatchNorm"], gpus=8), kind, **SHALLOW)
    four = ends(partial(lesson["BatchNorm"], gpus=4), kind, **SHALLOW)
    one = ends(lesson["BatchNorm"], kind, **SHALLOW)
    without = ends(None, kind, **SHALLOW)
    assert four.mean() < one.mean()
    assert reached(pairs).max() < four.min()
    assert reached(pairs).max() < without.min()
    assert reached(lesson["remeasure"](pairs)).max() < without.min()


@pytest.mark.slow
def test_training_on_pairs_is_chaotic(lesson):
    def trained(norm, nudge):
        nets = training.stacked_mlp(2, norm)
        with torch.no_grad():
            nets[0].weight.mul_(1 + nudge)
        training.train_stacked(nets, training.digits(), steps=200, lr=0.2, batch_size=16)
        return nets[0].weight.detach()

    for gpus, is_chaotic in ((8, True), (2, False)):
        norm = partial(lesson["BatchNorm"], gpus=gpus)
        apart = (trained(norm, 0.0) - trained(norm, 1e-13)).abs().max()
        assert (apart > 0.01) == is_chaotic, apart


@pytest.mark.parametrize("kind", each(KINDS))
def test_without_the_gradient_of_the_statistics_batch_norm_learns_worse(lesson, kind):
    broken = ends(lesson["TalksOnce"], kind, **DEEP)
    assert broken.max() < ends(lesson["BatchNorm"], kind, **DEEP).min()
    if kind != NARROW:  # there it is no worse than no norm
        assert broken.max() < ends(None, kind, **DEEP).min()


@pytest.mark.slow
@pytest.mark.parametrize("lr", [0.1, 0.3])
def test_with_the_outputs_of_pairs_and_a_mild_gradient_these_networks_learn_more(lesson, lr):
    how = SHALLOW | {"lr": lr, "steps": 300}
    usual = ends(partial(lesson["BatchNorm"], gpus=8), **how)
    mild = ends(partial(lesson["MildBatchNorm"], gpus=8), **how)
    assert mild.min() > usual.max()


@pytest.mark.slow
def test_at_its_best_learning_rate_a_mild_gradient_regains_most_of_what_pairs_cost(lesson):
    def best(norm, *rates):
        how = SHALLOW | {"steps": 200}
        return max(ends(norm, **how | {"lr": lr}).mean() for lr in rates)

    class MildOutputs(lesson["BatchNorm"]):  # the opposite mixture
        def normalize(self, x, mean, var):
            usual = super().normalize(x, mean, var)
            mild = (x - mean) / torch.sqrt(var + 10)
            return mild.detach() + usual - usual.detach()

    on_pairs = partial(lesson["BatchNorm"], gpus=8)
    mild_on_pairs = partial(lesson["MildBatchNorm"], gpus=8)
    usual = best(on_pairs, 0.003, 0.01, 0.03, 0.1, 0.4)
    mild = best(mild_on_pairs, 0.4, 0.8, 1.6)
    one_gpu = best(lesson["BatchNorm"], 0.1, 0.2, 0.4)
    assert 0.5 < (mild - usual) / (one_gpu - usual) < 0.9
    assert best(partial(MildOutputs, gpus=8), 0.01, 0.1, 0.8) < mild - 0.2
    assert best(partial(on_pairs, eps=10), 0.8) > mild

    usual, mild, one_gpu = (
        ends(norm, **SHALLOW).mean() for norm in (on_pairs, mild_on_pairs, lesson["BatchNorm"])
    )
    assert usual < mild < (usual + one_gpu) / 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", each(KINDS))
def test_batch_norm_tolerates_the_learning_rate_1_with_a_shift(lesson, kind):
    assert ends(None, kind, **LARGE_STEPS).max() < 0.3
    assert ends(lesson["BatchNorm"], kind, **LARGE_STEPS).min() > 0.8
    assert ends(lesson["Drifts"], kind, **LARGE_STEPS).mean() > 0.45


@pytest.mark.parametrize("kind", each(KINDS))
def test_one_scale_is_enough_at_the_learning_rate_1_once_the_means_are_subtracted(lesson, kind):
    one = ends(lesson["OneScale"], kind, **LARGE_STEPS)
    centered = ends(lesson["CenteredOneScale"], kind, **LARGE_STEPS)
    assert centered.min() > 0.8
    assert one.max() < centered.min()


@pytest.mark.slow
@pytest.mark.parametrize("kind", each(KINDS))
def test_the_gradient_through_the_center_counts_more_than_the_one_through_the_scale(lesson, kind):
    class CenterCut(lesson["CenteredOneScale"]):
        def statistics(self, parts):
            mean, var = super().statistics(parts)
            return mean.detach(), var

    class ScaleCut(lesson["CenteredOneScale"]):
        def statistics(self, parts):
            mean, var = super().statistics(parts)
            return mean, var.detach()

    assert ends(CenterCut, kind, **LARGE_STEPS).max() < ends(ScaleCut, kind, **LARGE_STEPS).min()


@pytest.mark.slow
def test_at_the_learning_rate_3_one_scale_is_behind_batch_norm(lesson):
    how = LARGE_STEPS | {"lr": 3.0}
    centered = ends(lesson["CenteredOneScale"], **how)
    assert centered.max() < ends(lesson["BatchNorm"], **how).min()


def on_gpus(gpus):
    """torch's layer; each GPU normalizes its part, and the first one keeps the buffers."""

    class OnGPUs(nn.BatchNorm1d):
        def forward(self, x):
            if not self.training:
                return super().forward(x)
            first, *others = x.chunk(gpus)
            known = (None, None, self.weight, self.bias, True)
            others = [F.batch_norm(part, *known, eps=self.eps) for part in others]
            return torch.cat([super().forward(first), *others])

    return OnGPUs


@pytest.mark.slow
def test_a_conv_net_fails_with_one_signal_on_each_gpu():
    data = training.signals().images()

    def trained(norm, seed):
        net = training.signal_cnn(norm, init="he", seed=seed)
        training.train(net, data, steps=400, batch_size=16, lr=0.01, optimizer="adam", seed=seed)
        return training.accuracy(net, data.validation_x, data.validation_y)

    for seed in range(3):
        usual, split = trained(on_gpus(1), seed), trained(on_gpus(16), seed)
        assert split < usual - 0.3
