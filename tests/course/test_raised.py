"""Each message of Python or torch that readers meet is explained, in the words it has today."""

import math
import statistics

import pytest
import torch

from normcourse.checks.raised import MEANS, one_line

X = torch.arange(6.0).reshape(2, 3)
RAISE = {  # a part of the message: who raises it
    "could not infer output dtype": lambda: (X > 1).any(-1).mean(),
    "Boolean value of Tensor": lambda: max(X[0], X[1]),
    "to numerator/denominator": lambda: statistics.mean(X[0]),
    "'list' object has no attribute": lambda: [1.0].mean(),
    "for /: 'list'": lambda: [1.0] / 2,
    "torch.return_types": lambda: X.clone().__setitem__(0, X[1].cummax(0)),
    "converted to an index": lambda: X[0].sort() * X[0],
    "'NoneType'": lambda: min([1.0, None]),
    "index out of range": lambda: X.shape[2],
    "StopIteration": lambda: next(iter([])),
    "is an empty sequence": lambda: min([]),
    "at least one data point": lambda: statistics.mean([]),
    "must match the size": lambda: X[:, :1].expand(2, 2) + X,
    "must have the same dtype": lambda: X @ torch.ones(3, dtype=torch.float64),
    "slice indices must be integers": lambda: X[: len(X) / 2],
    "recursion depth": lambda: RAISE["recursion depth"](),
    "only one element tensors": lambda: math.sqrt(X),
    "positional arguments but": lambda: (lambda a, b: a)(1, 2, 3),
    "active drivers": lambda: error("0 active drivers ([]). There should only be one."),
    "module 'triton.language' has no attribute": lambda: error(
        "AttributeError(\"module 'triton.language' has no attribute 'mean'\")"
    ),
    "'tensor' object has no attribute": lambda: error(
        "AttributeError(\"'tensor' object has no attribute 'mean'\")"
    ),
    "axis 1 out of bounds": lambda: error("ValueError(\"axis 1 out of bounds for shape ['8']\")"),
}


def error(message):
    raise RuntimeError(message)


@pytest.mark.parametrize("part", MEANS)
def test_a_message_is_explained(part):
    with pytest.raises(Exception) as raised:
        RAISE[part]()
    assert one_line(raised.value).endswith(f"({MEANS[part]}.)")


def test_what_is_not_known_keeps_its_own_words():
    assert one_line(ValueError("so\nand so")) == "ValueError: so"
    assert one_line(ValueError()) == "ValueError: no message"
