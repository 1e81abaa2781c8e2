"""The fit finds the least-squares alpha or c, gain and bias.

So it keeps more of a trained model.
"""

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from normcourse import training
from normlib import layers
from normlib.surgery import fit as fitting
from normlib.surgery import replace
from tests.library.norm_cases import draw
from tests.library.surgery_cases import assert_unchanged, snapshot, trained

NEW = [
    (layers.DyT, {}),
    (layers.DyT, {"scale": "sqrt_d"}),
    (layers.DyISRU, {}),
    (layers.DyISRU, {"scale": 1.0}),
]
every_new = pytest.mark.parametrize(("new", "options"), NEW, ids=str)


def relative_error(got, want):
    return ((got - want).norm() / want.norm()).item()


@pytest.fixture(scope="module")
def digits():
    data = training.digits()
    wide = {name: getattr(data, name).double() for name in ("train_x", "validation_x", "test_x")}
    return dataclasses.replace(data, **wide)


@pytest.fixture(scope="module", params=["pre", "post", "cnn"])
def model_and_data(request, digits):
    """A model trained a little, a few batches, and what it says about test images."""
    if request.param == "cnn":
        model, data = training.cnn(layers.BatchNorm2d), digits.images()
    else:
        model = training.transformer(layers.LayerNorm, depth=1, width=16, placement=request.param)
        data = digits
    training.train(model.double(), data, steps=40, optimizer="adam")
    with torch.no_grad():
        return model, data, model.eval()(data.test_x)


@every_new
def test_fitted_beats_unfitted_on_every_layer_and_in_the_logits(model_and_data, new, options):
    model, data, logits = model_and_data
    old = (layers.LayerNorm, layers.BatchNorm2d)
    plain, _ = replace(copy.deepcopy(model), old, new, **options)
    fitted, report = replace(
        copy.deepcopy(model), old, new, fit_to=data.train_x[:192].split(64), **options
    )
    assert all(record.error_fitted < 0.97 * record.error_unfitted for record in report.replaced)
    for record in report.replaced:  # each layer alone as well, on images that no fit has seen
        alone = [copy.deepcopy(model) for _ in range(2)]
        for twin, donor in zip(alone, (plain, fitted), strict=True):
            twin.set_submodule(record.paths[0], donor.get_submodule(record.paths[0]))
        unfitted_error, fitted_error = (relative_error(twin(data.test_x), logits) for twin in alone)
        assert fitted_error < unfitted_error
    with torch.no_grad():
        assert relative_error(fitted(data.test_x), logits) < 0.9 * relative_error(
            plain(data.test_x), logits
        )
    assert "; error " in str(report) and "fitted" in str(report)


@pytest.mark.parametrize(("new", "options"), NEW, ids=str)
@pytest.mark.parametrize("size", [6, (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("start", [1.6, 2.8, 5.2])  # above and below the nearest knee of the grid
def test_the_fit_recovers_a_layer_of_its_own_kind(new, options, size, bias, start):
    """From default alpha or c and another scale, the old function comes back.

    Its gain and bias come back, too.
    """
    old = new(size, start, 0.8, bias=bias).double()
    old.weight.data = draw(*old.weight.shape)
    if bias:
        old.bias.data = draw(*old.bias.shape, seed=1)
    x = draw(50, 4, *old.normalized_shape, seed=2)
    want = old(x).detach()
    fitted, report = replace(old, new, new, fit_to=[x], **options)
    # a golden section stops where two errors round to the same: at sqrt(eps) = 1.5e-8 of the knee
    # or above
    assert report.replaced[0].error_fitted < 1e-6 < 0.01 < report.replaced[0].error_unfitted
    assert_close(fitted(x).detach(), want, rtol=0, atol=1e-5)
    slope = start * fitted.scale / 0.8  # alpha x / scale is what counts
    gain = 0.8 / fitted.scale
    constant = f"alpha = {slope:.3g}" if new is layers.DyT else f"c = {start}"
    assert report.replaced[0].notes[-1] == f"fitted: {constant}, weight times {gain:.3g}"


@every_new
def test_a_straight_line_is_not_followed_to_an_endless_knee(new, options):
    """A BatchNorm in eval mode is linear: the knee stops at e^3 times the input's RMS."""
    x = draw(500, 3) - 1
    old = nn.BatchNorm1d(3).double()
    fitted, report = replace(old, nn.BatchNorm1d, new, fit_to=[x], **options)
    log_knee = (fitted.scale / fitted.alpha).log() if new is layers.DyT else fitted.log_c / 2
    want = x.square().mean().log() / 2 + 3
    # what the golden section leaves
    assert_close(log_knee.detach(), want.reshape(1), rtol=0, atol=2e-6)
    # x / sqrt(1 + (x/knee)^2) is off by x^3 / (2 knee^2): sqrt(15) / 2 e^-6 of a normal RMS; tanh
    # by less
    assert report.replaced[0].error_fitted < 15**0.5 / 2 * math.exp(-6)


@every_new
def test_a_start_that_no_fit_can_improve_stays(new, options):
    old = new(4, **options).double()
    fitted, report = replace(old, new, new, fit_to=[draw(50, 4)], **options)
    assert report.replaced[0].notes[-1] == "not fitted: its start is as good"
    assert report.replaced[0].error_fitted == report.replaced[0].error_unfitted == 0
    assert_close(
        dict(fitted.state_dict()), dict(new(4, **options).double().state_dict()), rtol=0, atol=0
    )


def test_channels_first_is_fitted_along_the_channels():
    old = layers.DyT(3, 1.7, 0.8, channels_first=True).double()
    old.bias.data = draw(3)
    x = draw(5, 3, 4, 2)
    want = old(x).detach()
    fitted, _ = replace(old, layers.DyT, layers.DyT, fit_to=[x, draw(3, 4, 2).unsqueeze(0)])
    assert_close(fitted(x).detach(), want, rtol=0, atol=1e-5)


@every_new
def test_no_other_knee_gain_and_bias_is_better(new, options):
    """Second derivation: a dense scan of the knee, the regression by QR, on rows with outliers."""
    old, x = trained(nn.LayerNorm(5)), draw(400, 5)
    x[::7] *= 9
    y, weight = old(x).detach(), old.weight.detach().clone()
    _, report = replace(old, nn.LayerNorm, new, fit_to=[x], **options)
    shifts = torch.eye(5, dtype=torch.float64).repeat(400, 1)
    errors = []
    for knee in torch.logspace(-2, 2, 500, dtype=torch.float64):
        curve = torch.tanh(x / knee) if new is layers.DyT else x / (x.square() + knee**2).sqrt()
        columns = torch.cat([(weight * curve).reshape(-1, 1), shifts], dim=1)
        target = y.reshape(-1, 1)
        best = torch.linalg.lstsq(columns, target, driver="gels").solution
        errors.append(relative_error(columns @ best, target))
    got = report.replaced[0].error_fitted
    assert got == pytest.approx(min(errors), rel=1e-4)  # (half the scan's step of 1.8%) squared
    assert got <= min(errors) * (1 + 1e-12)


def test_the_model_runs_in_eval_without_gradients_and_is_left_as_it_was():
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append((self.training, torch.is_grad_enabled()))
            return x

    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Spy(), nn.Dropout()).double()
    model[1].eval()
    statistics = copy.deepcopy(dict(model[1].named_buffers()))
    modes = [module.training for module in model.modules()]
    old = model[1]
    replace(model, nn.BatchNorm1d, layers.DyT, fit_to=[draw(5, 4)])
    assert seen == [(False, False)] and [module.training for module in model.modules()] == modes
    assert_close(dict(old.named_buffers()), statistics, rtol=0, atol=0)
    assert not old._forward_hooks and all(p.grad is None for p in model.parameters())


def fails(x):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("batches", "new", "error", "words"),
    [
        ([draw(3, 5)], layers.DyT, RuntimeError, "shapes"),
        ([], layers.DyT, ValueError, "fit_to was empty"),
        (
            [torch.zeros(3, 4, dtype=torch.float64)],
            lambda old: layers.DyT(4),
            ValueError,
            "all zero",
        ),
        (draw(3, 4), layers.DyT, TypeError, "Put it in a list"),
        ([draw(3, 4)], layers.LayerNorm, ValueError, "can fit DyT, DyISRU and Derf, not LayerNorm"),
    ],
    ids=["model fails", "empty", "zeros", "one tensor", "a norm"],
)
def test_a_fit_that_is_refused_leaves_the_model_untouched(batches, new, error, words):
    model = nn.Sequential(
        nn.Linear(4, 4, bias=False), trained(nn.LayerNorm(4)), nn.Linear(4, 4)
    ).double()
    before = snapshot(model)
    with pytest.raises(error, match=words):
        replace(model, nn.LayerNorm, new, fit_to=batches)
    assert_unchanged(model, before)
    assert torch.backends.mha.get_fastpath_enabled() and not model[1]._forward_hooks


def test_tied_weights_cannot_be_fitted():
    model = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4)).double()
    model[1].weight = model[0].weight
    with pytest.raises(ValueError, match="another layer shares its weight"):
        replace(model, nn.LayerNorm, layers.DyT, fit_to=[draw(3, 4)])


def test_layers_without_signal_stay_at_their_start_and_say_so():
    model = nn.ModuleDict(
        {"used": nn.LayerNorm(4), "unused": nn.LayerNorm(4), "off": nn.LayerNorm(4)}
    ).double()
    nn.init.zeros_(model["off"].weight)
    model.forward = lambda x: model["used"](x) + model["off"](x)
    _, report = replace(model, nn.LayerNorm, layers.DyT, fit_to=[draw(9, 4)])
    notes = [record.notes[-1] for record in report.replaced]
    assert (
        notes[0].startswith("fitted: alpha")
        and notes[1] == notes[2] == "not fitted: no batch reached it, or only zeros"
    )
    assert (
        model["unused"].alpha.item()
        == model["off"].alpha.item()
        == 0.5
        != model["used"].alpha.item()
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_error_is_that_of_the_values_as_stored(dtype):
    model = nn.Sequential(trained(nn.LayerNorm(8), dtype=dtype))
    x = (3 * draw(64, 8)).to(dtype)
    want = model(x).double()
    _, report = replace(model, nn.LayerNorm, layers.DyISRU, fit_to=[x])
    got = copy.deepcopy(model).double()(x.double())
    assert relative_error(got, want) == pytest.approx(report.replaced[0].error_fitted, rel=1e-12)
    assert report.replaced[0].error_fitted < report.replaced[0].error_unfitted


def test_memory_is_bounded_by_a_uniform_sample_of_rows(monkeypatch):
    monkeypatch.setattr(fitting, "SAMPLE", 800)
    sample = fitting._Sample(layers.DyT(2))
    for number in range(40):  # rows 0 to 3999, 100 a batch
        rows = torch.arange(100.0 * number, 100 * number + 100)[:, None].expand(100, 2)
        sample(None, (rows,), {}, -rows)
    x, y = sample.rows
    assert x.shape == (400, 2) and torch.equal(x, -y) and len(x[:, 0].unique()) == 400
    # the mean of 400 of 0..3999 without replacement: standard error
    # 4000 / sqrt(12 * 400) * sqrt(0.9) = 55
    assert abs(x.mean() - 1999.5) < 4 * 55
    # 100 expected, standard error 8.2
    assert (x[:, 0] < 1000).sum() > 60 and (x[:, 0] >= 3000).sum() > 60
