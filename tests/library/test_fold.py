"""surgery.fold keeps every answer, by numbers of a second derivation, or changes nothing."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.testing import assert_close

from normlib import layers
from normlib.surgery import fold
from tests.library.norm_cases import draw
from tests.library.surgery_cases import assert_unchanged, snapshot

D, TOKENS, WORDS = 8, 5, 11
CLOSE = {"rtol": 1e-12, "atol": 1e-12}  # float64: sums of some hundred terms of order 1


def drawn(model):
    """The model in float64, with parameters that no constructor gives; ties stay."""
    model.double().eval()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=number) - 0.5)
    return model


class Branch(nn.Module):
    def __init__(self, norm, inner=16, bias=True):
        super().__init__()
        self.norm, self.reader = norm, nn.Linear(D, inner, bias=bias)
        self.writer = nn.Linear(inner, D, bias=bias)

    def forward(self, x):
        return self.writer(torch.relu(self.reader(self.norm(x))))


class Language(nn.Module):
    """Words and added positions, two branches, a head that is tied to the words."""

    def __init__(self, norm=nn.LayerNorm, bias=True, tied=True):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, D), nn.Parameter(torch.zeros(TOKENS, D))
        self.first, self.second = Branch(norm(D), bias=bias), Branch(norm(D), bias=bias)
        self.norm, self.head = norm(D), nn.Linear(D, WORDS, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def stream(self, x):
        x = self.words(x) * 2.0 + self.places[: x.shape[1]]
        x = x + self.first(x)
        x += 0.5 * self.second(x)
        return x

    def forward(self, x):
        return self.head(self.norm(self.stream(x)))


class Encoder(nn.Module):
    """torch's own encoder; a first token that is no input; tokens first in half of the tests."""

    def __init__(self, batch_first=True):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            D, 2, 16, dropout=0.1, batch_first=batch_first, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D), enable_nested_tensor=False)
        self.embed, self.head = nn.Linear(3, D), nn.Linear(D, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, D))
        self.batch_first = batch_first

    def forward(self, x):
        x = self.embed(x)
        x = torch.cat([self.token.expand(x.shape[0], 1, D), x], dim=1)
        x = x if self.batch_first else x.transpose(0, 1)
        x = self.encoder(x)
        return self.head(x.mean(1 if self.batch_first else 0))


def plain():
    return nn.Sequential(nn.Linear(3, D), layers.LayerNorm(D, eps=0.1), nn.Linear(D, D),
                         nn.LayerNorm(D, bias=False), nn.Linear(D, 2))  # fmt: skip


WORD_ROWS = torch.tensor([[1, 2, 3, 4], [10, 0, 5, 1]])
MODELS = {
    "plain": (plain, draw(6, 3)),
    "language": (Language, WORD_ROWS),
    "language of ours": (lambda: Language(layers.LayerNorm), WORD_ROWS),
    "no biases": (lambda: Language(bias=False), WORD_ROWS),
    "not tied": (lambda: Language(tied=False), WORD_ROWS),
    "no gain": (lambda: Language(lambda size: nn.LayerNorm(size, elementwise_affine=False)),
                WORD_ROWS),
    "encoder": (Encoder, draw(2, 4, 3)),
    "tokens first": (lambda: Encoder(batch_first=False), draw(2, 4, 3)),
}  # fmt: skip
every_model = pytest.mark.parametrize(("build", "x"), MODELS.values(), ids=MODELS)
both = pytest.mark.parametrize("gains", [False, True], ids=["gains stay", "gains move"])


def norms(model, kinds):
    return [module for module in model.modules() if isinstance(module, kinds)]


@both
@every_model
def test_the_answers_stay_and_every_norm_reads_centred_rows(build, x, gains):
    model = drawn(build())
    want = model(x).detach()
    count = len(norms(model, (nn.LayerNorm, layers.LayerNorm)))
    same, report = fold(model, [x], gains=gains)
    assert same is model and len(report.replaced) == count and report.left == {}
    assert not norms(model, (nn.LayerNorm, layers.LayerNorm))
    means = []
    for norm in norms(model, layers.RMSNorm):
        assert not gains or norm.weight is None
        norm.register_forward_pre_hook(lambda _, args: means.append(args[0].mean(-1).abs().max()))
    got = model(x)
    assert_close(got.detach(), want, **CLOSE)
    assert len(means) == count and max(means) < 1e-13
    assert not model.training and torch.backends.mha.get_fastpath_enabled()


@both
def test_the_new_numbers_are_those_of_a_second_derivation(gains):
    """By the matrix that centres, P = 1 - ones/D, and by hand through one branch."""
    old = drawn(Language())
    new, _ = fold(copy.deepcopy(old), [WORD_ROWS], gains=gains)
    centre = torch.eye(D, dtype=torch.float64) - 1 / D
    assert_close(new.words.weight, old.words.weight @ centre, **CLOSE)
    assert_close(new.places, old.places @ centre, **CLOSE)
    for after, before in ((new.first, old.first), (new.second, old.second)):
        weight = before.reader.weight
        assert_close(after.writer.weight, centre @ before.writer.weight, **CLOSE)
        assert_close(after.writer.bias, centre @ before.writer.bias, **CLOSE)
        assert_close(after.reader.bias, before.reader.bias + weight @ before.norm.bias, **CLOSE)
        gained = weight @ torch.diag(before.norm.weight) if gains else weight
        assert_close(after.reader.weight, gained, **CLOSE)
        assert gains or after.norm.weight is before.norm.weight or after.norm.weight is not None
    head = old.words.weight
    assert_close(new.head.bias, head @ old.norm.bias, **CLOSE)
    assert_close(new.head.weight, head @ torch.diag(old.norm.weight) if gains else head, **CLOSE)


@both
def test_the_gradients_with_respect_to_the_input_stay(gains):
    model, x = drawn(plain()), draw(6, 3).requires_grad_()
    (want,) = torch.autograd.grad(model(x).square().sum(), x)
    fold(model, [x.detach()], gains=gains)
    (got,) = torch.autograd.grad(model(x).square().sum(), x)
    assert_close(got, want, **CLOSE)


def test_float32_loses_no_more_than_its_roundings():
    exact = drawn(Language())
    model = copy.deepcopy(exact).float()
    truth = copy.deepcopy(model).double()(WORD_ROWS)
    before = (model(WORD_ROWS) - truth).abs().max()
    fold(model, [WORD_ROWS])
    after = (model(WORD_ROWS) - truth).abs().max()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert after < 10 * max(before, torch.finfo(torch.float32).eps * truth.abs().max())


@both
def test_a_tied_head_keeps_its_numbers_and_the_report_says_so(gains):
    model = drawn(Language())
    numbers = model.words.weight.detach().clone()
    model.words.weight.requires_grad_(False)
    count = len(list(model.parameters()))
    _, report = fold(model, [WORD_ROWS], gains=gains)
    assert model.head.weight is not model.words.weight
    assert not model.words.weight.requires_grad and not model.head.weight.requires_grad
    assert len(list(model.parameters())) == count + 2 - 3 * (2 if gains else 1)
    if not gains:
        assert torch.equal(model.head.weight, numbers)
    assert "any more" in str(report) and "words.weight" in str(report)


def test_what_is_tied_and_changes_alike_stays_tied():
    model = drawn(nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 8),
                                nn.LayerNorm(8), nn.Linear(8, 8), nn.LayerNorm(8),
                                nn.Linear(8, 2)))  # fmt: skip
    model[4].weight = model[2].weight
    want = model(draw(6, 3)).detach()
    _, report = fold(model, [draw(6, 3)])
    assert model[4].weight is model[2].weight and "any more" not in str(report)
    assert_close(model(draw(6, 3)).detach(), want, **CLOSE)
    fold(drawn(model), [draw(6, 3)], gains=True)


def test_gains_of_rms_norms_move_and_their_writers_stay():
    model = drawn(Language(nn.RMSNorm))
    want = model(WORD_ROWS).detach()
    words = model.words.weight.detach().clone()
    with pytest.raises(ValueError, match=r"first\.norm: is an RMSNorm already"):
        fold(model, [WORD_ROWS])
    _, report = fold(model, [WORD_ROWS], gains=True)
    assert torch.equal(model.words.weight, words) and len(report.replaced) == 3
    assert_close(model(WORD_ROWS).detach(), want, **CLOSE)
    turn, _ = torch.linalg.qr(draw(D, D, seed=7))
    with torch.no_grad():  # without gains the stream can be turned: QuaRot's second step
        model.words.weight.copy_(words @ turn)
        model.places.copy_(model.places @ turn)
        for branch in (model.first, model.second):
            branch.reader.weight.copy_(branch.reader.weight @ turn)
            branch.writer.weight.copy_(turn.T @ branch.writer.weight)
            branch.writer.bias.copy_(turn.T @ branch.writer.bias)
        model.head.weight.copy_(model.head.weight @ turn)
    assert_close(model(WORD_ROWS).detach(), want, **CLOSE)


class Changed(Language):
    """A Language whose code does something that a fold cannot follow."""

    def __init__(self, change, tied=False):
        super().__init__(tied=tied)
        self.change = change
        self.extra = nn.Linear(D, D)
        self.scale = nn.Parameter(torch.zeros(D))
        self.add_module("convolution", nn.Conv1d(D, D, 1))

    def forward(self, x):
        return self.change(self, x)


def relu_writes(m, x):
    h = m.stream(x)
    return m.head(m.norm(h + torch.relu(m.extra(m.norm(h)))))


def reads_without_norm(m, x):
    return m.head(m.norm(m.stream(x))) + m.extra(m.stream(x)).sum()


def returns_the_stream(m, x):
    return m.head(m.norm(m.stream(x))), m.stream(x)


def returns_the_normalized(m, x):
    return m.head(m.norm(m.stream(x))), m.norm(m.stream(x))


def tied_in_code(m, x):
    return m.norm(m.stream(x)) @ m.words.weight.T


def convolution_writes(m, x):
    return m.head(m.norm(m.stream(x) + m.convolution(m.stream(x).mT).mT))


def scaled_by_a_row(m, x):
    return m.head(m.norm(m.stream(x) + m.scale * m.extra(m.norm(m.stream(x)))))


def scaled_by_data(m, x):
    h = m.stream(x[:1, :1])
    return m.head(m.norm(h * h.square().mean()))


def shifted(m, x):
    return m.head(m.norm(m.stream(x) + 1.0))


def written_over(m, x):
    h = m.stream(x)
    h[:, 0] += 1.0
    return m.head(m.norm(h))


def other_features(m, x):
    return m.head(m.norm(m.stream(x).flip(-1) + m.stream(x).roll(1, -1)))


def halves(m, x):
    h = m.stream(x)
    return m.head(m.norm(torch.cat([h[..., 4:], h[..., :4]], dim=-1) + h))


def another_norm_reads(m, x):
    return m.head(m.norm(m.stream(x))) + nn.functional.rms_norm(m.stream(x), (D,)).sum()


def reads_two_things(m, x):
    return m.extra(m.norm(m.stream(x))).sum() + m.extra(
        torch.relu(m.head(m.norm(m.stream(x)))[..., :D])
    )


def two_norms_of_one_reader(m, x):
    h = m.stream(x)
    return m.extra(m.norm(h)) + m.extra(m.first.norm(h))


def leaves_one_out(m, x):
    return m.head(m.norm(m.words(x)))


def from_the_input(m, x):
    return m.head(m.norm(x.unsqueeze(-1) + torch.zeros(D, dtype=torch.float64)))


def post(m, x):
    h = m.first.norm(m.words(x))
    return m.head(m.norm(h + m.extra(h))) + m.second(h).sum()


def tied_and_added(m, x):
    return m.head(m.norm(m.words(x) + m.head.weight[:4]))


CHANGES = {
    relu_writes: ["norm: fold knows no weights", "relu", "Subtract the mean there"],
    reads_without_norm: ["it writes to the stream", "extra reads without a LayerNorm"],
    returns_the_stream: ["the model's output reads without a LayerNorm"],
    returns_the_normalized: ["norm: its bias can only move", "the model's output reads it"],
    tied_in_code: ["words.weight", "mm in (the model) uses it", "head.weight = embed.weight"],
    convolution_writes: ["it writes to the stream", "convolution in convolution reads"],
    scaled_by_a_row: ["norm: fold knows no weights", "mul in (the model)"],
    scaled_by_data: ["it writes to the stream", "pow in (the model) reads"],
    shifted: ["norm: fold knows no weights", "a number, added"],
    written_over: ["it writes to the stream", "copy_ in (the model) reads"],
    other_features: ["it writes to the stream", "flip in (the model) reads"],
    halves: ["norm: fold knows no weights", "not whole rows"],
    another_norm_reads: ["reads without a LayerNorm"],
    reads_two_things: ["norm: its bias would move into extra", "copy.deepcopy"],
    two_norms_of_one_reader: ["its bias would move into extra", "copy.deepcopy"],
    leaves_one_out: ["first.norm: none of the inputs reached this norm"],
    from_the_input: ["fold knows no weights", "zeros in (the model)"],
    post: ["the norm first.norm (Post-LN)"],
    tied_and_added: ["tied parameter"],
}


def only_what_is_used(model, x):
    """The model without the norms that its change does not run."""
    if model.change in (two_norms_of_one_reader, from_the_input, tied_and_added):
        model.first.norm = model.first.norm if model.change is two_norms_of_one_reader else None
        model.second.norm = nn.Identity()
        model.second = nn.Identity()
        if model.first.norm is None:
            model.first = nn.Identity()
    return model


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_cannot_be_folded_is_refused_and_nothing_changes(change):
    model = only_what_is_used(drawn(Changed(change, tied=change is tied_and_added)), WORD_ROWS)
    before = snapshot(model)
    was = repr(model)
    with pytest.raises(ValueError) as error:
        fold(model, [WORD_ROWS])
    assert all(word in str(error.value) for word in CHANGES[change]), error.value
    assert_unchanged(model, before)
    assert repr(model) == was
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Linear(3, 4)), "found no LayerNorm of torch.nn or normlib"),
        (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), "1: its bias can only move"),
        (nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 4)), nn.LayerNorm(4),
                       nn.Linear(4, 2)), "1: fold knows no weights"),
        (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm((6, 4)), nn.Linear(4, 2)), "not whole rows"),
        (nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)), "reads: the input of the model"),
    ],
    ids=["no norm", "norm at the end", "weights that are computed", "several axes", "input"],
)  # fmt: skip
def test_models_without_a_place_for_the_fold(model, words):
    drawn(model)
    before = snapshot(model)
    with pytest.raises(ValueError) as error:
        fold(model, [draw(6, 3)])
    assert words in str(error.value), error.value
    assert_unchanged(model, before)


class Small(nn.Module):
    """One writer, one norm, one reader, and something between."""

    def __init__(self, between):
        super().__init__()
        self.writer, self.norm, self.reader = nn.Linear(3, D), nn.LayerNorm(D), nn.Linear(D, 2)
        self.between = between

    def forward(self, x):
        return self.reader(self.norm(self.between(self.writer(x))))


def changed_through_a_view(h):
    h[:, 0].add_(torch.ones(D, dtype=h.dtype))
    return h


BETWEEN = {
    "a view is changed": (changed_through_a_view, "changed in place"),
    "times the mean of all": (lambda h: h * h.mean(), "mul in (the model)"),
    "minus its mean": (lambda h: h - h.mean(-1, keepdim=True), "not whole rows"),
    "over a number of the data": (lambda h: h / h[:1, :1, :1], "div in (the model)"),
}


@pytest.mark.parametrize(("between", "words"), BETWEEN.values(), ids=BETWEEN)
def test_what_is_done_to_the_stream_is_seen(between, words):
    model = drawn(Small(between))
    before = snapshot(model)
    with pytest.raises(ValueError) as error:
        fold(model, [draw(1, 4, 3)])
    assert words in str(error.value), error.value
    assert_unchanged(model, before)


def test_other_types_are_named():
    with pytest.raises(TypeError, match="a list of batches as inputs, got one batch"):
        fold(plain(), draw(6, 3))
    with pytest.raises(TypeError, match=r"an nn.Module as model, got 3\. Pass the whole model"):
        fold(3, [draw(6, 3)])


def test_training_goes_on_where_it_was():
    """Modes come back, frozen stays frozen, and an optimizer holds the numbers that stay."""
    model = drawn(plain()).train()
    model[0].requires_grad_(False)
    held = model[0].weight
    fold(model, [draw(6, 3)])
    assert all(module.training for module in model.modules())
    assert model[0].weight is held and not held.requires_grad and model[4].bias.requires_grad
