"""Bad input to normlib.functional gets torch's kind of error, with the fix.

Where torch says nothing it is ValueError.
"""

import functools
import itertools

import numpy
import pytest
import torch

from normlib import functional
from tests.library.norm_cases import draw
from tests.library.rejection import INF, NAN, OURS, TORCH, assert_rejected, error_of

X, SIX = draw(4, 6, 5), torch.ones(6).double()


def norms(x, **options):
    """(name, call) of every norm on x; running statistics where there must be some."""
    return {
        "batch_norm": lambda lib: lib.F.batch_norm(x, None, None, training=True, **options),
        "batch_norm_eval": lambda lib: lib.F.batch_norm(x, SIX, SIX, **options),
        "layer_norm": lambda lib: lib.F.layer_norm(x, (5,), **options),
        "rms_norm": lambda lib: lib.F.rms_norm(x, (5,), **options),
        "group_norm": lambda lib: lib.F.group_norm(x, 2, **options),
        "instance_norm": lambda lib: lib.F.instance_norm(x, **options),
    }


EVERY = list(norms(X))


def test_eps_must_be_positive_in_batch_norms_training_only():
    assert_rejected(norms(X, eps=0.0)["batch_norm"], "eps=0.0")
    for norm in EVERY[1:]:
        assert error_of(norms(X, eps=0.0)[norm], OURS) is None


@pytest.mark.parametrize("flag", ["no", 0, 1, None], ids=repr)
def test_a_flag_must_be_a_bool(flag):
    assert_rejected(
        lambda lib: lib.F.batch_norm(X, SIX, SIX, training=flag), "as training", repr(flag)
    )
    call = lambda lib: lib.F.instance_norm(X, SIX, SIX, use_input_stats=flag)  # noqa: E731
    assert_rejected(call, "as use_input_stats", repr(flag))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("which", [0, 1], ids=["running_mean", "running_var"])
@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
def test_running_statistics_have_no_gradient(norm, which, training):
    def call(lib):
        running = [SIX.clone(), SIX.clone()]
        running[which].requires_grad_()
        try:
            getattr(lib.F, norm)(X, *running, None, None, training)
        finally:
            assert all(statistic.eq(1).all() for statistic in running)

    assert_rejected(call, ("running_mean", "running_var")[which], "without gradient")
    with torch.no_grad():
        running = SIX.clone().requires_grad_()
        getattr(functional, norm)(X, SIX.clone(), running, None, None, training)  # as torch


@pytest.mark.parametrize("momentum", ["0.1", NAN, INF, -1, 1.5, None], ids=str)
@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
def test_momentum_must_be_between_0_and_1(norm, momentum):
    def call(lib):
        mean, var = SIX.clone(), SIX.clone()
        try:
            getattr(lib.F, norm)(X, mean, var, None, None, True, momentum)
        finally:
            assert lib is TORCH or (mean.eq(1).all() and var.eq(1).all())

    assert_rejected(call, str(momentum))


BAD_SHAPES = [(7,), (1,), (), (6, 1), (1, 6), (2, 3)]


@pytest.mark.parametrize("shape", BAD_SHAPES, ids=str)
@pytest.mark.parametrize("which", [0, 1], ids=["running_mean", "running_var"])
def test_running_statistics_must_have_the_channels_shape(which, shape):
    def call(lib, norm, training):
        running = [SIX.clone(), SIX.clone()]
        running[which] = torch.ones(shape).double()
        getattr(lib.F, norm)(X, *running, None, None, training)

    for norm, training in itertools.product(("batch_norm", "instance_norm"), (True, False)):
        name = ("running_mean", "running_var")[which]
        assert_rejected(
            functools.partial(call, norm=norm, training=training), name, "(6,)", str(shape)
        )


@pytest.mark.parametrize("other", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_parameters_of_another_type_are_rejected_but_float32_ones_under_a_half_input(other):
    x = X.float()
    for name in ("weight", "bias"):
        for norm, size in {
            "batch_norm": 6,
            "layer_norm": 5,
            "group_norm": 6,
            "instance_norm": 6,
        }.items():
            call = norms(x, **{name: torch.ones(size, dtype=other)})[norm]
            assert_rejected(call, name, str(other), "torch.float32")
    running = torch.ones(6, dtype=other)
    for norm in ("batch_norm", "instance_norm"):
        assert_rejected(
            lambda lib, norm=norm: getattr(lib.F, norm)(x, running, running, None, None, True),
            str(other),
        )


@pytest.mark.parametrize(
    "given", [(False, True), (True, False), (False, False)], ids=["var", "mean", "none"]
)
@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
def test_one_running_statistic_needs_the_other_and_evaluation_needs_both(norm, given):
    running = [SIX.clone() if wanted else None for wanted in given]
    for training in (True, False):
        if any(given) or not training:
            assert_rejected(
                lambda lib, training=training: getattr(lib.F, norm)(
                    X, *running, None, None, training
                ),
                "running_mean and running_var",
            )


@pytest.mark.parametrize("shape", [(1, 6), (1, 6, 1), (1, 6, 1, 1), (1, 0)], ids=str)
def test_one_value_per_channel_has_no_variance(shape):
    x = draw(*shape)
    assert_rejected(
        lambda lib: lib.F.batch_norm(x, None, None, training=True), "more than 1", str(shape)
    )
    assert_rejected(lambda lib: lib.F.instance_norm(x), "more than 1", str(shape))
    if shape[1]:
        assert_rejected(lambda lib: lib.F.group_norm(x, 6), "more than 1", str(shape))


@pytest.mark.parametrize("shape", [(), (6,)], ids=str)
def test_channels_need_a_second_dimension(shape):
    x = draw(*shape)
    assert_rejected(
        lambda lib: lib.F.batch_norm(x, None, None, training=True), "(N, C, ...)", str(shape)
    )
    assert_rejected(lambda lib: lib.F.batch_norm(x, SIX, SIX), "(N, C, ...)", str(shape))
    assert_rejected(lambda lib: lib.F.instance_norm(x), "(N, C, ...)", str(shape))
    assert_rejected(lambda lib: lib.F.group_norm(x, 2), "(N, C, ...)", str(shape))


def test_a_normalized_shape_may_hold_integers_of_other_libraries():
    assert error_of(lambda lib: lib.F.layer_norm(X, (torch.tensor(5),)), OURS) is None  # as torch
    assert error_of(lambda lib: lib.F.layer_norm(X, [numpy.int64(5)]), OURS) is None


# torch._weight_norm is not asked: it checks neither shape nor number of g, and reads past its end
@pytest.mark.parametrize(
    ("error", "v", "g", "dim", "pieces"),
    [
        (IndexError, X, SIX[:1], 3, ("dim", "got 3")),
        (IndexError, X, SIX[:1], -4, ("dim", "got -4")),
        (ValueError, X[0], SIX, 0, ("(6, 1)", "(6,)")),
        (ValueError, X[0], torch.ones(1, 5).double(), 0, ("(6, 1)", "(1, 5)")),
        (ValueError, X[0], torch.ones(7, 1).double(), 0, ("(6, 1)", "(7, 1)")),
        (RuntimeError, X[0], torch.ones(6, 1), 0, ("torch.float32", "torch.float64")),
        (NotImplementedError, X[0].long(), torch.ones(6, 1), 0, ("torch.int64",)),
        (TypeError, "v", SIX, 0, ("str",)),
        (TypeError, X, None, 0, ("None",)),
    ],
    ids=[
        "dim 3",
        "dim -4",
        "(6,)",
        "(1, 5)",
        "(7, 1)",
        "float32 g",
        "integer v",
        "no tensor v",
        "no g",
    ],
)
def test_weight_norm_rejects(error, v, g, dim, pieces):
    with pytest.raises(error) as raised:
        functional.weight_norm(v, g, dim)
    assert all(piece in str(raised.value) for piece in pieces)
