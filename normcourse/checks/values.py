"""Answers of every kind as tensors: numbers, arrays, SymPy expressions."""

import math
import numbers
import random
import sys
from collections.abc import Iterable

import numpy
import torch
from torch import Tensor

# where two expressions are compared; two different ones of the course agree at none of them
POINTS = 6
# what a second is in them
UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}


def describe(got) -> str:
    """What got is, as a message to a student says it."""
    if got is None:
        return "None (is the return missing?)"
    name = type(got).__name__
    if isinstance(got, tuple | list):
        return f"a {name} of length {len(got)}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def is_expression(value) -> bool:
    """Whether value is a SymPy expression or number. SymPy is loaded where one was made."""
    sympy = sys.modules.get("sympy")
    return sympy is not None and isinstance(value, sympy.Expr)


def is_complex(value) -> bool:
    """Whether value is a complex number, or a complex tensor or array."""
    if isinstance(value, Tensor):
        return value.is_complex()
    return isinstance(value, complex) or numpy.iscomplexobj(value)


def is_float32(value) -> bool:
    """Whether value is a tensor, an array or a number of numpy in single precision."""
    return getattr(value, "dtype", None) in (torch.float32, numpy.float32)


def as_number(value) -> float:
    """The float of a real number of any library, or of one element; else TypeError."""
    if isinstance(value, Tensor | numpy.ndarray):
        one_real = math.prod(value.shape) == 1 and not isinstance(value.item(), bool)
        value = value.item() if one_real else None
    if isinstance(value, bool) or not (isinstance(value, numbers.Number) or is_expression(value)):
        raise TypeError("not a number")
    return float(value)  # TypeError for a complex number, and for an expression with free symbols


def as_expression(value):
    """The SymPy number of a real number of any library; else TypeError."""
    return sys.modules["sympy"].Float(as_number(value), 30)


def points_of(expressions: Iterable) -> dict[str, list[float]]:
    """{name: its values at the POINTS} for the symbols of all expressions.

    A symbol that one of them declares positive or an integer gets such values.
    """
    symbols = sorted((s for e in expressions for s in e.free_symbols), key=lambda s: s.name)
    by_name: dict[str, list] = {}
    for symbol in symbols:
        by_name.setdefault(symbol.name, []).append(symbol)
    return {name: _values_of_symbol(same) for name, same in by_name.items()}


def _values_of_symbol(same_name: list) -> list[float]:
    seeded = random.Random(same_name[0].name)
    whole = any(symbol.is_integer for symbol in same_name)
    positive = whole or any(symbol.is_positive for symbol in same_name)
    values = []
    for i in range(POINTS):
        size = seeded.randint(2, 9) if whole else seeded.uniform(0.3, 1.7)
        values.append(size if positive or i % 2 == 0 else -size)
    return values


def at_points(expression, points: dict[str, list[float]]) -> Tensor:
    """(POINTS,), complex: the values of a SymPy expression. TypeError where one is no number."""
    expression = expression.doit()
    values = []
    for i in range(POINTS):
        point = {symbol: points[symbol.name][i] for symbol in expression.free_symbols}
        values.append(complex(expression.evalf(30, subs=point)))
    return torch.tensor(values, dtype=torch.complex128)
