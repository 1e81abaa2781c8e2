r"""The formulas of a lesson that have no tag: displayed lines, and formulas in a line of text.

A formula is evaluated with the numbers that the bindings of its cell (bindings_lines.py) give to
its names, at two random points; one without names is arithmetic, and evaluated wherever it stands.
It is true if it holds in one of the bindings: a letter may change its meaning within a cell.
"""

import math
import re
from functools import cache
from typing import NamedTuple

import numpy as np

from tests.equations import bindings_lines, latex

TAGGED = re.compile(r"^\*\*\[EQ-[A-Z0-9-]+\]\*\*\s*\n\$\$.+?\$\$", re.M | re.S)
DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.S)
INLINE = re.compile(r"\$([^$]+)\$")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.S)
WORDS = re.compile(r"\s*\\q?quad\s*\\text\{([^}]*)\}")  # said between two formulas, or behind one
WRONG = r"\text{(wrong)}"
CONSTANTS = {"e": math.e, "pi": math.pi}
SYMBOL = re.compile(
    r"(?:\\(?:hat|bar|tilde)\{.\}|\\?[A-Za-z]+|\\mathrm\{\w+\})"
    r"(?:_\{[^{}]*(?:\{\w+\})?\}|\^\{\\mathrm\{\w+\}\})*"
)
NUMBER_COMMANDS = re.compile(r"\\(?:t?frac|sqrt|ln|exp|cdot|dots)(?![a-z])")
NO_VALUE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
POINTS = 2  # random points


class Formula(NamedTuple):
    cell: str
    source: str  # LaTeX, without its dollars
    displayed: bool


class Verdict(NamedTuple):
    relation: latex.Relation
    known: bool  # a binding has all its names
    wrong: str = ""  # what is wrong with it


# Reading


def formulas(cell: str, text: str):
    """The untagged formulas of a text, displayed and within lines."""
    text = TAGGED.sub(" ", CODE.sub(" ", text))
    for block in DISPLAYED.findall(text):
        yield Formula(cell, block.strip(), True)
    for source in INLINE.findall(DISPLAYED.sub(" ", text)):
        yield Formula(cell, " ".join(source.split()), False)


def with_signs(source: str) -> list[str]:
    r"""A formula with \pm, once with plus and once with minus."""
    if r"\pm" not in source:
        return [source]
    pairs = (("+", "-"), ("-", "+"))
    return [source.replace(r"\pm", upper).replace(r"\mp", lower) for upper, lower in pairs]


def relations(source: str, functions=frozenset()) -> list[latex.Relation]:
    r"""The relations of a formula; \text{with} between two of them separates as a comma does."""
    source = WORDS.sub(r", \\qquad", source)
    source = re.sub(r"\\text\{[^}]*\}", "", source).strip()  # a unit
    source = re.sub(r"[,.]?\s*(?:\\qquad)?\s*$", "", source)
    try:
        return latex.relations(source, latex.FUNCTIONS | functions)
    except (IndexError, ValueError) as error:  # it ends too early, say
        raise SyntaxError(str(error)) from error


def is_setting(relation) -> bool:
    """A letter is given a value, or another name: D = 4, x = (3, 4), G = C."""
    at = relation.tokens.index(relation.sign)
    sides = "".join(relation.tokens[:at]), "".join(relation.tokens[at + 1 :])
    symbols = [bool(SYMBOL.fullmatch(side)) for side in sides]
    numbers = [is_number(side) for side in sides]
    return all(symbols) or any(a and b for a, b in zip(symbols, numbers[::-1], strict=True))


def is_number(side: str) -> bool:
    return not re.search(r"[A-Za-z]", NUMBER_COMMANDS.sub("", side))


# Evaluating


def environments(place: str, formula: Formula) -> list[list[dict]]:
    """For each binding its environments at the random points; the first has no names."""
    own = [key for key in bindings_lines.CELLS if key.startswith(f"{place} $")]
    own = [key for key in own if formula.source.startswith(key.removeprefix(f"{place} $"))]
    keys = own or [place]
    binds = [bind for key in keys for bind in bindings_lines.CELLS.get(key, ())]
    return [[CONSTANTS], *map(points_of, binds)]


@cache
def points_of(bind) -> list[dict]:
    return [CONSTANTS | bindings_lines.environment(bind, point) for point in range(POINTS)]


def verdicts(place: str, formula: Formula) -> list[Verdict]:
    """One for each relation of a formula in a cell; SyntaxError, if it is no formula."""
    found = [of_one_sign(place, formula, source) for source in with_signs(formula.source)]
    sides = re.split(r"=|\\approx|\\leq|\\geq", formula.source)
    if all(r"\pm" in side or r"\mp" in side for side in sides):
        return [verdict for each in found for verdict in each]
    return min(found, key=lambda each: sum(bool(verdict.wrong) for verdict in each))  # one of two


def of_one_sign(place, formula, source) -> list[Verdict]:
    best: list[Verdict] = []
    for points in environments(place, formula):
        parsed = relations(source, functions_of(points[0]))
        found = [judged(relation, points, formula.displayed) for relation in parsed]
        best = [better(pair) for pair in zip(best, found, strict=True)] if best else found
    return best


def better(pair) -> Verdict:
    return max(pair, key=lambda verdict: (verdict.known and not verdict.wrong, verdict.known))


def judged(relation, points, displayed) -> Verdict:
    if unbound(relation, points[0]) or (is_setting(relation) and not displayed):
        return Verdict(relation, known=False)
    for env in points:
        try:
            with np.errstate(all="ignore"):
                wrong = difference(relation, env)
        except NO_VALUE as error:
            wrong = f"cannot be evaluated: {type(error).__name__}: {error}"
        if wrong:
            return Verdict(relation, True, wrong)
    return Verdict(relation, known=True)


def difference(relation, env) -> str:
    """Where the two sides are not what the relation says, and what they are."""
    for left, right in relation.sides(env):
        left, right = (np.asarray(detached(side)) for side in (left, right))
        if not agree(relation, left, right):
            return (
                f"is not true: in {latex.text(relation.tokens)} the left side is {rounded(left)}, "
                f"the right side {rounded(right)}"
            )
    return ""


def agree(relation, left, right) -> bool:
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        return False
    if relation.sign in {"<", r"\leq"}:
        return bool((left <= right + 1e-9).all())
    if relation.sign in {">", r"\geq"}:
        return bool((left >= right - 1e-9).all())
    if relation.sign == r"\approx":
        return np.allclose(left, right, **reach(relation))
    # Behind dots comes what is of third order.
    neglected = 20 * bindings_lines.SMALL**3 if "dots" in relation.names else 1e-9
    return np.allclose(left, right, rtol=1e-9, atol=neglected)


def reach(relation) -> dict[str, float]:
    r"""What \approx neglects: the square of what is small, or half of the last digit shown."""
    last = relation.tokens[-1]
    if relation.names:
        return {"rtol": 0.0, "atol": 30 * bindings_lines.SMALL**2}
    if relation.tokens[-2] == relation.sign and last[0].isdigit():
        return {"rtol": 0.0, "atol": 0.5 * 10.0 ** -len(last.partition(".")[2])}
    return {"rtol": 5e-4, "atol": 0.0}


def functions_of(env) -> set[str]:
    return {name.removesuffix("()") for name in env if name.endswith("()")}


def unbound(relation, env) -> list[str]:
    def is_bound(name):
        return any(entry in env for entry in (name, f"{name}()", f"{name}[]"))

    return sorted(name for name in relation.names if not is_bound(name))


def missing(place: str, formula: Formula, relation) -> str:
    """The names that the binding with the most of them lacks."""
    lacks = [unbound(relation, points[0]) for points in environments(place, formula)]
    return ", ".join(min(lacks, key=len))


def detached(side):
    return side.detach().numpy() if hasattr(side, "detach") else side


def rounded(value) -> str:
    return np.array2string(value, precision=6, separator=", ")
