"""The closed forms refuse what the forwards refuse, with the same errors."""

import math

import pytest
import torch

from normlib import functional, gradients
from tests.library.norm_cases import draw
from tests.library.rejection import INF, NAN

X = draw(4, 6, 5)
SIX = draw(6, seed=1)
FIVE = draw(5, seed=2)
GOOD = {  # the arguments that forward and backward share
    "batch_norm": {"input": X, "weight": SIX, "bias": SIX, "eps": 1e-5},
    "layer_norm": {"input": X, "normalized_shape": (5,), "weight": FIVE, "bias": FIVE, "eps": 1e-5},
    "rms_norm": {"input": X, "normalized_shape": (5,), "weight": FIVE, "eps": 1e-5},
    "group_norm": {"input": X, "num_groups": 2, "weight": SIX, "bias": SIX, "eps": 1e-5},
    "instance_norm": {"input": X, "weight": SIX, "bias": SIX, "eps": 1e-5},
    "weight_norm": {"v": draw(4, 6), "g": draw(4, 1), "dim": 0},
    "dyt": {"input": X, "alpha": draw(1), "weight": FIVE, "bias": FIVE, "scale": 1.0},
    "dyisru": {"input": X, "c": draw(1).exp(), "weight": FIVE, "bias": FIVE, "scale": 1.0},
    "derf": {"input": X, "alpha": draw(1), "shift": draw(1), "weight": FIVE, "bias": FIVE},
    "softcap": {"input": X, "cap": 3.0},
}
NO_INPUT = [
    None,
    [[1.0, 2.0]],
    torch.ones(4, 6, 5).long(),
    torch.ones(4, 6, 5).cfloat(),
    torch.tensor(1),
]
NO_FLOATS = [torch.ones(5).long(), torch.ones(5, dtype=torch.bool), torch.ones(5).cdouble()]
NO_NUMBER = [draw(3), 0.5, None, *(value[:1] for value in NO_FLOATS)]
NO_VECTOR = [
    draw(1),
    draw(4, 1),
    draw(7),
    [1.0],
    2.0,
    draw(2, 4, 6, 5),
    draw(),
    *NO_FLOATS,
]
NO_EPS = [-1e-5, NAN, INF, "1e-5"]
NO_SCALE = [0, -1.0, NAN, INF, "sqrt_d"]
BAD = {
    "input": NO_INPUT,
    "v": NO_INPUT,
    "normalized_shape": [(6,), (9,), (), 5, (5.0,), (4, 6, 5, 1), torch.tensor([5]), {5}],
    "weight": NO_VECTOR,
    "bias": NO_VECTOR,
    "g": [draw(6, 1), draw(1, 6), None, [1.0]],
    "alpha": NO_NUMBER,
    "shift": NO_NUMBER,
    "c": [*NO_NUMBER, torch.tensor([-1.0]).double(), torch.tensor(0.0).double()],
    "eps": NO_EPS,
    "scale": NO_SCALE,
    "cap": NO_SCALE,
    "num_groups": [0, -1, 4, 7, "2", 2.0],
    "dim": [2, -3],
}
CASES = [
    pytest.param(norm, name, value, id=f"{norm}, {name} {k}")
    for norm, arguments in GOOD.items()
    for name in arguments
    for k, value in enumerate(BAD[name])
]


def error_of(function, **arguments):
    try:
        function(**arguments)
    except Exception as error:
        return error
    return None


def of_forward(norm, arguments):
    if norm == "batch_norm":
        arguments = arguments | {"running_mean": None, "running_var": None, "training": True}
    return error_of(getattr(functional, norm), **arguments)


def witnesses(norm):
    """(name, call) of the backward and, if there is one, the Jacobian of a norm."""
    backward = getattr(gradients, f"{norm}_backward")
    found = [(f"{norm}_backward", lambda **given: backward(grad_output=X, **given))]
    if norm == "weight_norm":
        found = [(f"{norm}_backward", lambda **given: backward(grad_output=draw(4, 6), **given))]
    if hasattr(gradients, f"{norm}_jacobian"):
        found.append((f"{norm}_jacobian", getattr(gradients, f"{norm}_jacobian")))
    return found


@pytest.mark.parametrize("norm", GOOD)
def test_good_arguments_are_taken(norm):
    assert of_forward(norm, GOOD[norm]) is None
    for _, call in witnesses(norm):
        assert error_of(call, **GOOD[norm]) is None


@pytest.mark.parametrize(("norm", "name", "value"), CASES)
def test_what_the_forward_refuses_is_refused_in_the_same_words(norm, name, value):
    arguments = GOOD[norm] | {name: value}
    theirs = of_forward(norm, arguments)
    for caller, call in witnesses(norm):
        ours = error_of(call, **arguments)
        if isinstance(value, torch.Tensor) and value.dim() == 0 and caller.endswith("jacobian"):
            assert isinstance(ours, type(theirs)) and theirs is not None
            continue  # a Jacobian asks for rows first
        assert type(ours) is type(theirs) and theirs is not None
        assert str(ours) == str(theirs).replace(norm, caller, 1)


@pytest.mark.parametrize(
    ("norm", "shape"),
    [("batch_norm", (1, 6)), ("group_norm", (1, 2)), ("instance_norm", (4, 6, 1))],
)
def test_one_value_has_no_variance(norm, shape):
    x = draw(*shape)
    arguments = {"input": x} | ({"num_groups": 2} if norm == "group_norm" else {})
    theirs = of_forward(norm, arguments)
    ours = error_of(getattr(gradients, f"{norm}_backward"), grad_output=x, **arguments)
    assert type(ours) is type(theirs) is ValueError
    assert str(ours) == str(theirs).replace(norm, f"{norm}_backward", 1)


def test_batch_norms_eps_is_positive_as_in_training():
    for norm in ("batch_norm_backward", "batch_norm_jacobian"):
        arguments = {"grad_output": X} if norm.endswith("backward") else {}
        error = error_of(getattr(gradients, norm), input=X, eps=0.0, **arguments)
        assert type(error) is ValueError and "above 0" in str(error)


@pytest.mark.parametrize("norm", GOOD)
def test_a_gradient_that_is_none_is_refused(norm):
    backward = getattr(gradients, f"{norm}_backward")
    for dy, kind in [(None, TypeError), ([1.0], TypeError), (X.long(), NotImplementedError)]:
        if norm == "weight_norm" and kind is NotImplementedError:
            dy = dy[:, :, 0]
        error = error_of(backward, grad_output=dy, **GOOD[norm])
        assert type(error) is kind, error
        assert f"{norm}_backward needs" in str(error)


def test_softmax_refuses_what_torch_refuses():
    for x, dim, kind in [
        (X.long(), -1, NotImplementedError),
        (X, 3, IndexError),
        (None, 0, TypeError),
    ]:
        assert type(error_of(gradients.softmax_backward, grad_output=X, input=x, dim=dim)) is kind
    assert type(error_of(torch.softmax, input=X, dim=3)) is IndexError


@pytest.mark.parametrize("name", ["unit_vector", "softmax"])
def test_a_jacobian_needs_rows(name):
    jacobian = getattr(gradients, f"{name}_jacobian")
    with pytest.raises(
        RuntimeError, match=r"needs rows \(\.\.\., D\), got a tensor of shape \(\)\. Add"
    ):
        jacobian(torch.tensor(1.0))
    with pytest.raises(NotImplementedError, match=r"torch\.int64"):
        jacobian(torch.arange(3))


@pytest.mark.parametrize("c", [-1.0, 0.0, NAN])
def test_a_c_that_is_not_positive_is_refused_by_all(c):
    c = torch.tensor([c]).double()
    for call in (
        lambda: functional.dyisru(X, c),
        lambda: gradients.dyisru_backward(X, X, c),
        lambda: gradients.dyisru_jacobian(X, c),
    ):
        with pytest.raises(ValueError, match=r"^dyisru\w* needs positive numbers as c, got "):
            call()


def test_a_number_without_dimensions_has_one_feature():  # [EQ-DYISRU] [EQ-DYISRU-GRAD]
    x, c = torch.tensor(2.0), torch.tensor(5.0)
    assert functional.dyisru(x, c).item() == pytest.approx(2 / 3)
    dx, dc = gradients.dyisru_backward(torch.tensor(1.0), x, c)
    assert dx.item() == pytest.approx(5 / 27)
    assert dc.item() == pytest.approx(-2 / 54)
    assert math.isclose(dx.item(), gradients.dyisru_jacobian(x[None], c).item(), rel_tol=1e-6)
