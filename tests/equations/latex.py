r"""Evaluate the LaTeX of notebooks/reference/equations.md: a formula becomes a check on numbers.

A relation is `left = right`, or with \leq, \approx, \leftarrow; a block separates them by `,
\qquad`, or by a line break inside \begin{gathered} where they would not fit on one line.

    sum      = [+ | -] product {(+ | -) product}
    product  = factor {[\cdot | /] factor}              juxtaposition multiplies
    factor   = \sum_{i=1}^{D} product | \max_{i} product | \tanh[^{sum}] factor | atom[^{sum}]
    atom     = number | name[_{indices}] | F(sum) | \frac{}{} | \sqrt{}
             | () [] \lVert\rVert \lvert\rvert

A parsed expression is a function of an environment: a dict from names to numbers, arrays (indexed
from 1), dicts from index to value, or functions. Names lose their typesetting: \hat{x} is hatx,
v^{\mathrm{run}} is v_run, \frac{\partial L}{\partial x_{i}} is dL_dx with index i. A name without
index is the whole array.
"""

import itertools
import math
import re
from dataclasses import dataclass, field

import numpy as np

TOKEN = re.compile(r"\\[A-Za-z]+|\\[,;!]|\d+(?:\.\d+)?|[A-Za-z]|[-+=(){}\[\]^_/,]")
IGNORED = {r"\,", r"\;", r"\!", r"\left", r"\right"}
RELATIONS = {"=", r"\leq", r"\approx", r"\leftarrow"}
ACCENTS = {r"\hat", r"\bar", r"\tilde"}
ELEMENTWISE = {r"\tanh": np.tanh, r"\exp": np.exp, r"\ln": np.log}
PAIRS = {"(": ")", "[": "]", r"\lVert": r"\rVert", r"\lvert": r"\rvert"}
REDUCTIONS = {r"\sum": sum, r"\prod": math.prod, r"\max": max}
FUNCTIONS = {
    "F",
    "J",
    "f",
    "LN",
    "RMSNorm",
    "sign",
    "step",
    "erf",
    "sd",
    "E",
}  # names that a bracket applies, not multiplies
END_OF_PRODUCT = {None, "+", "-", ",", "}", *RELATIONS, *PAIRS.values()}


def blocks(markdown):
    """Tag -> block of every `### EQ-...` heading."""
    return dict(re.findall(r"^### (EQ-[A-Z0-9-]+) — [^\n]+\n(\$\$\n[^$]+\n\$\$)\n", markdown, re.M))


def relations(block):
    lines = re.sub(r"\\(begin|end)\{gathered\}", "", block.strip("$"))
    return [Relation.parse(tokens(part)) for part in re.split(r",\s*(?:\\qquad|\\\\)", lines)]


def tokens(source):
    unknown = TOKEN.sub("", source).strip()
    if unknown:
        raise SyntaxError(f"not in the dialect: {unknown!r} in {source!r}")
    return [token for token in TOKEN.findall(source) if token not in IGNORED]


@dataclass
class Relation:
    tokens: list
    sign: str
    left: object
    right: object
    free: dict  # index letter of the left side -> (name, axis) where it stands
    # kind of part -> [(start, ..., end)] in tokens, for planting errors
    spans: dict = field(repr=False)

    @classmethod
    def parse(cls, tokens):
        depth = list(itertools.accumulate((t == "{") - (t == "}") for t in tokens))
        at = next((k for k, t in enumerate(tokens) if t in RELATIONS and depth[k] == 0), None)
        if at is None:
            raise SyntaxError(f"no relation in {' '.join(tokens)}")
        left, right = Parser(tokens, 0, at), Parser(tokens, at + 1, len(tokens))
        sides = left.whole(), right.whole()
        free = {i: place for i, place in left.used.items() if i not in left.bound}
        spans = {kind: left.spans[kind] + right.spans[kind] for kind in left.spans}
        return cls(tokens, tokens[at], *sides, free, spans)

    def sides(self, env):
        r"""(left, right) at every value of the free indices;
        left of \leftarrow is the new value.
        """
        after = env | env["new"] if self.sign == r"\leftarrow" else env
        ranges = [span_of(env[name], axis) for name, axis in self.free.values()]
        for values in itertools.product(*ranges):
            at = dict(zip(self.free, values, strict=True))
            yield self.left(after | at), self.right(env | at)


def span_of(value, axis):
    return (
        [k for k in value if k > 0]
        if isinstance(value, dict)
        else range(1, np.shape(value)[axis] + 1)
    )


class Parser:
    def __init__(self, tokens, start, end):
        self.tokens, self.at, self.end = tokens, start, end
        self.used, self.bound = {}, set()
        self.spans = {
            "term": [],
            "factor": [],
            "indices": [],
            "fraction": [],
            "root": [],
            "power": [],
        }

    # Tokens

    def peek(self):
        return self.tokens[self.at] if self.at < self.end else None

    def take(self, *expected):
        token = self.peek()
        if token is None or (expected and token not in expected):
            raise SyntaxError(
                f"expected {expected or 'more'} at {self.at} of {' '.join(self.tokens)}"
            )
        self.at += 1
        return token

    def accept(self, *wanted):
        return self.take() if self.peek() in wanted else None

    def braced(self, content):
        self.take("{")
        value = content()
        self.take("}")
        return value

    def whole(self):
        value = self.sum()
        if self.peek() is not None:
            raise SyntaxError(f"left over from {self.at} on: {' '.join(self.tokens)}")
        return value

    # Sums, products, factors

    def sum(self):
        start, terms = self.at, []
        sign = self.accept("+", "-")
        while sign or not terms:
            terms.append((-1 if sign == "-" else 1, self.product()))
            self.spans["term"].append((start, self.at))
            start, sign = self.at, self.accept("+", "-")
        if len(terms) == 1:
            self.spans["term"].pop()  # nothing would be left without it
        return lambda env: sum(factor * term(env) for factor, term in terms)

    def product(self):
        start, value, count = self.at, self.factor(), 1
        self.spans["factor"].append((start, self.at))
        while self.peek() not in END_OF_PRODUCT:
            start, count = self.at, count + 1
            operation = self.accept(r"\cdot", "/")
            value = (_divide if operation == "/" else _multiply)(value, self.factor())
            self.spans["factor"].append((start, self.at))
        if count == 1:
            self.spans["factor"].pop()
        return value

    def factor(self):
        if self.peek() in REDUCTIONS:
            return self.reduction(REDUCTIONS[self.take()])
        if self.peek() in ELEMENTWISE:
            function = ELEMENTWISE[self.take()]
            exponent = self.exponent()
            return _power(_apply(function, self.factor()), exponent)
        value = self.atom()
        return _power(value, self.exponent())

    def exponent(self):
        start = self.at
        if not self.accept("^"):
            return None
        value = self.braced(self.sum)
        self.spans["power"].append((start, self.at))
        return value

    def reduction(self, reduce):
        self.take("_")
        index, first = self.braced(lambda: (self.take(), self.sum() if self.accept("=") else None))
        last = self.braced(self.sum) if first and self.take("^") else None
        body = self.product()
        self.bound.add(index)
        name, axis = self.used.get(index, (None, None))

        def value(env):
            span = (
                range(round(first(env)), round(last(env)) + 1)
                if first
                else span_of(env[name], axis)
            )
            return reduce([body(env | {index: k}) for k in span])

        return value

    def atom(self):
        token = self.peek()
        if token in PAIRS:
            return self.group()
        start = self.at
        if self.accept(r"\sqrt"):
            value = _apply(np.sqrt, self.braced(self.sum))
            self.spans["root"].append((start, self.at))
            return value
        if self.accept(r"\frac"):
            if self.tokens[self.at + 1] == r"\partial":
                return self.derivative()
            above, middle, below = self.braced(self.sum), self.at, self.braced(self.sum)
            self.spans["fraction"].append((start, middle, self.at))
            return _divide(above, below)
        if token is not None and token[0].isdigit():
            number = float(self.take())
            return lambda env: number
        return self.variable()

    def group(self):
        opening = self.take()
        value = self.sum()
        self.take(PAIRS[opening])
        if opening == r"\lVert":
            return _apply(lambda v: np.sqrt(np.sum(np.square(v))), value)
        return _apply(np.abs, value) if opening == r"\lvert" else value

    # Names and indices

    def derivative(self):
        def differential():
            self.take(r"\partial")
            return self.symbol()

        (top, above), (bottom, below) = self.braced(differential), self.braced(differential)
        return self.lookup(f"d{top}_d{bottom}", above + below)

    def variable(self):
        name, indices = self.symbol()
        if name == "delta":
            return lambda env: float(len({index(env) for index, _ in indices}) == 1)
        if name in FUNCTIONS and not indices and self.peek() == "(":
            argument = self.group()
            return lambda env: env[name](argument(env))
        return self.lookup(name, indices)

    def symbol(self):
        """A name with all that belongs to it,
        and its indices as (function of env, letter or None).
        """
        accent = self.accept(*ACCENTS) or ""
        name = self.braced(self.take) if accent else self.word() or self.take()
        name = (accent + name).replace("\\", "")
        if not name[0].isalpha():
            raise SyntaxError(f"expected a name before {self.at} of {' '.join(self.tokens)}")
        indices = []
        while self.peek() == "_" or self.tokens[self.at : self.at + 3] == ["^", "{", r"\mathrm"]:
            self.take()
            label = self.braced(lambda: self.word() or self.indices(indices))
            name += f"_{label}" if label else ""
        return name, indices

    def word(self):
        letters = []
        if self.accept(r"\mathrm"):
            self.take("{")
            while not self.accept("}"):
                letters.append(self.take())
        return "".join(letters)

    def indices(self, found):
        first = self.at
        while not found or self.accept(","):
            start = self.at
            value = self.sum()
            letter = self.tokens[start] if self.at == start + 1 else ""
            found.append((value, letter if letter.isalpha() else None))
        self.spans["indices"].append((first, self.at))

    def lookup(self, name, indices):
        for axis, (_, letter) in enumerate(indices):
            if letter:
                self.used.setdefault(letter, (name, axis))

        def value(env):
            found, at = env[name], [round(index(env)) for index, _ in indices]
            if isinstance(found, dict):
                return found[at[0]]
            if 0 in at:
                raise IndexError(f"{name} starts at 1")
            return found[tuple(k - 1 for k in at)] if at else found

        return value


def _multiply(a, b):
    return lambda env: a(env) * b(env)


def _divide(a, b):
    return lambda env: a(env) / b(env)


def _power(a, b):
    return a if b is None else lambda env: a(env) ** b(env)


def _apply(function, a):
    return lambda env: function(a(env))
