"""The closed forms refuse what the forwards refuse, with the same errors."""

import math

import pytest
import torch

from normlib import functional, gradients
from tests.library.norm_cases import draw
from tests.library.rejection import NAN

X = draw(4, 6, 5)


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


def test_softmax_refuses_what_torch_refuses():
    for x, dim, kind in [
        (X.long(), -1, NotImplementedError),
        (X, 3, IndexError),
        (None, 0, TypeError),
    ]:
        assert type(error_of(gradients.softmax_backward, grad_output=X, input=x, dim=dim)) is kind
    assert type(error_of(torch.softmax, input=X, dim=3)) is IndexError


def test_a_jacobian_needs_rows():
    jacobian = gradients.softmax_jacobian
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
