r"""Evaluate LaTeX: a formula of equations.md, or a line of a lesson, becomes a check on numbers.

A relation is `left = right`, or with \leq, \approx, \leftarrow ...; a block separates them by `,
\qquad`, or by a line break inside \begin{gathered} where they would not fit on one line. A chain
a = b = c is the relations a = b and b = c.

    sum      = [+ | -] product {(+ | -) product}
    product  = factor {[\cdot | /] factor}              juxtaposition multiplies
    factor   = \sum_{i=1}^{D} product | \max_{i} product | \tanh[^{sum}] factor | atom[^{sum}]
    atom     = number | name[_{indices}] | F(sum) | \frac{}{} | \sqrt{} | \frac{\partial}{\partial}
             | () [] \lVert\rVert \lvert\rvert | (sum, sum, ...) | atom^{\top} | atom'

A parsed expression is a function of an environment: a dict from names to numbers, arrays (indexed
from 1), dicts from index to value, or functions; where one letter is a number and more, x() is the
function and x[] what has an index. Names lose their typesetting: \hat{x} is hatx,
v^{\mathrm{run}} is v_run. A name without index is the whole array: x \cdot y of two rows is their
scalar product, W x a matrix times a row, x x^{\top} a matrix. A derivative is the entry dL_dx of
the environment, or autograd's, of any expression, if the entries are tensors; y' is by x.
"""

import functools
import itertools
import math
import operator
import re
from dataclasses import dataclass, field

import numpy as np

TOKEN = re.compile(r"\\[A-Za-z]+|\\[,;!]|\d+(?:\.\d+)?|[A-Za-z]|[-+=<>(){}\[\]^_/,']")
IGNORED = {r"\,", r"\;", r"\!", r"\left", r"\right", r"\bigl", r"\bigr", r"\quad"}
RELATIONS = {"=", "<", ">", r"\leq", r"\geq", r"\approx", r"\leftarrow"}
ACCENTS = {r"\hat", r"\bar", r"\tilde"}
ELEMENTWISE = {r"\tanh": "tanh", r"\exp": "exp", r"\ln": "log"}
PAIRS = {"(": ")", "[": "]", r"\lVert": r"\rVert", r"\lvert": r"\rvert"}
NO_SIGNS = {*"{}_^,", *PAIRS, *PAIRS.values(), r"\frac", r"\tfrac"}  # they only group and place
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
    "Var",
}  # names that a bracket applies, not multiplies
DOTS = {r"\dots", r"\ldots", r"\cdots"}
TRANSPOSED = ["^", "{", r"\top", "}"]
END_OF_PRODUCT = {None, "+", "-", ",", "}", *RELATIONS, *PAIRS.values()}


def blocks(markdown):
    """Tag -> block of every `### EQ-...` heading."""
    return dict(re.findall(r"^### (EQ-[A-Z0-9-]+) — [^\n]+\n(\$\$\n[^$]+\n\$\$)\n", markdown, re.M))


def relations(block, functions=frozenset(FUNCTIONS)):
    """The relations of a displayed block, or of a formula in a line, in their order."""
    lines = re.sub(r"\\(begin|end)\{gathered\}", "", block.strip("$"))
    parts = re.split(r",\s*(?:\\qquad|\\\\)", lines)
    return [relation for part in parts for relation in chain(tokens(part), functions)]


def chain(tokens, functions=frozenset(FUNCTIONS)):
    """a = b = c as the relations a = b and b = c; a side that is only dots is passed over."""
    signs, sides = [], [[]]
    for token, depth in zip(tokens, depths(tokens), strict=True):
        if token in RELATIONS and depth == 0:
            signs.append(token)
            sides.append([])
        else:
            sides[-1].append(token)
    if not signs:
        raise SyntaxError(f"no relation in {' '.join(tokens)}")
    links = zip(["", *signs], sides, strict=True)
    links = [(sign, side) for sign, side in links if not side or not DOTS.issuperset(side)]
    return [
        Relation.parse([*left, sign, *right], functions)
        for (_, left), (sign, right) in itertools.pairwise(links)
    ]


def text(tokens):
    """Tokens as LaTeX again."""
    spaced = (t + " " if t[0] == "\\" and t[-1].isalpha() else t for t in tokens)
    return re.sub(r"\s+(?=[^A-Za-z]|$)", "", "".join(spaced))


def depths(tokens):
    """How many braces are open after each token."""
    return list(itertools.accumulate((t == "{") - (t == "}") for t in tokens))


def expression(source, functions=frozenset(FUNCTIONS)):
    """The Parser that has read a formula without a relation."""
    read = tokens(source)
    parser = Parser(read, 0, len(read), functions)
    parser.whole()
    return parser


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
    free: dict  # index letter that no sum binds -> [(name, axis)] where it stands
    names: set  # what an environment has to have, without indices
    # kind of part -> [(start, ..., end)] in tokens, for planting errors
    spans: dict = field(repr=False)

    @classmethod
    def parse(cls, tokens, functions=frozenset(FUNCTIONS)):
        found = zip(tokens, depths(tokens), strict=True)
        at = next((k for k, (t, depth) in enumerate(found) if t in RELATIONS and depth == 0), None)
        if at is None:
            raise SyntaxError(f"no relation in {' '.join(tokens)}")
        left = Parser(tokens, 0, at, functions)
        right = Parser(tokens, at + 1, len(tokens), functions)
        sides = left.whole(), right.whole()
        spans = {kind: left.spans[kind] + right.spans[kind] for kind in left.spans}
        free = right.free() | left.free()
        names = left.names | right.names
        names -= {*left.used, *left.bound, *right.used, *right.bound}
        return cls(tokens, tokens[at], *sides, free, names, spans)

    def sides(self, env):
        r"""(left, right) at every value of the free indices.

        The left of \leftarrow is the new value.
        """
        after = env | env["new"] if self.sign == r"\leftarrow" else env
        free = {letter: places for letter, places in self.free.items() if letter not in env}
        for at in index_values(free, env):
            yield self.left(after | at), self.right(env | at)


def index_values(places, env):
    """Each {index letter: value} that the indices can take."""
    for values in itertools.product(*(span_of(env, found) for found in places.values())):
        yield dict(zip(places, values, strict=True))


def span_of(env, places):
    """The values of an index that stands at one of these places: (name, axis)."""
    name, axis = next((place for place in places if entry_of(env, place[0]) in env), places[0])
    value = env[entry_of(env, name)]
    if isinstance(value, dict):
        return [k for k in value if k > 0]
    return range(1, np.shape(value)[axis] + 1)


def entry_of(env, name):
    """Where a name with an index is found: where a letter stands for two things, under x[]."""
    return f"{name}[]" if f"{name}[]" in env else name


class Parser:
    def __init__(self, tokens, start, end, functions=frozenset(FUNCTIONS)):
        self.tokens, self.at, self.end = tokens, start, end
        self.functions = functions
        self.used, self.bound = {}, set()  # indices: letter -> [(name, axis)], and those of sums
        self.names = set()
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

    def free(self):
        return {i: places for i, places in self.used.items() if i not in self.bound}

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
        r"""Factors side by side and fractions first, then \cdot: x \cdot A y is x \cdot (A y)."""
        start, run, count = self.at, self.factor(), 1
        before = None  # what stands left of the last \cdot
        self.spans["factor"].append((start, self.at))
        while self.peek() not in END_OF_PRODUCT:
            start, count = self.at, count + 1
            operation = self.accept(r"\cdot", "/")
            factor = self.factor()
            if operation == r"\cdot":
                before, run = _dot(before, run), factor
            else:
                run = (_divide if operation else _multiply)(run, factor)
            self.spans["factor"].append((start, self.at))
        if count == 1:
            self.spans["factor"].pop()
        return _dot(before, run)

    def factor(self):
        if self.peek() in REDUCTIONS:
            return self.reduction(REDUCTIONS[self.take()])
        if self.peek() in ELEMENTWISE:
            function = _elementwise(ELEMENTWISE[self.take()])
            exponent = self.exponent()
            return _power(_apply(function, self.factor()), exponent)
        value = self.atom()
        while self.accept("'"):
            self.names.add("x")
            value = _gradient(value, "x")
        if self.tokens[self.at : self.at + 4] == TRANSPOSED:
            self.at += 4
            value = _apply(_transpose, value)
        return _power(value, self.exponent())

    def exponent(self):
        start = self.at
        if not self.accept("^"):
            return None
        value = self.braced(self.sum) if self.peek() == "{" else self.atom()
        self.spans["power"].append((start, self.at))
        return value

    def reduction(self, reduce):
        r"""\sum_{i=1}^{D}, \sum_{i}, \sum_{i,k}, and \sum_{i \neq k} over all pairs.

        Over i alone where only the other side has a k, as in c_{k} = \sum_{i \neq k} x_{i}.
        """
        self.take("_")
        self.take("{")
        letters = [self.take()]
        while self.accept(","):
            letters.append(self.take())
        other = self.take() if self.accept(r"\neq") else None
        first = self.sum() if self.accept("=") else None
        self.take("}")
        last = self.braced(self.sum) if first and self.take("^") else None
        body = self.product()
        if other in self.used:
            letters.append(other)
        self.bound.update(letters)
        places = {letter: self.used.get(letter, [("no " + letter, 0)]) for letter in letters}

        def value(env):
            if first:
                span = range(round(first(env)), round(last(env)) + 1)
                steps = [{letters[0]: k} for k in span]
            else:
                steps = list(index_values(places, env))
            if other:
                steps = [at for at in steps if at[letters[0]] != (env | at)[other]]
            return reduce([body(env | at) for at in steps])

        return value

    def atom(self):
        token = self.peek()
        if token in PAIRS:
            return self.group()
        start = self.at
        if self.accept(r"\sqrt"):
            value = _apply(_elementwise("sqrt"), self.braced(self.sum))
            self.spans["root"].append((start, self.at))
            return value
        if self.accept(r"\frac", r"\tfrac"):
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
        entries = [value]
        while self.accept(","):
            entries.append(self.sum())
        self.take(PAIRS[opening])
        if len(entries) > 1:
            return lambda env: _row([entry(env) for entry in entries])
        if opening == r"\lVert":
            return _apply(_length, value)
        return _apply(abs, value) if opening == r"\lvert" else value

    # Names and indices

    def derivative(self):
        r"""\frac{\partial y}{\partial x}, of any order; or \frac{\partial}{\partial x} y."""
        top, above, value = "", [], None
        self.take("{")
        order = self.differential()
        if self.peek() in PAIRS:
            value = self.group()
        elif self.peek() != "}":
            top, above = self.symbol()
        self.take("}")
        self.take("{")
        self.differential()
        bottom, below = self.symbol()
        if self.order() != order:
            raise SyntaxError(f"two orders of a derivative before {self.at}")
        self.take("}")
        return self.differentiated(top, above, value, bottom, below, order)

    def differential(self):
        self.take(r"\partial")
        return self.order()

    def order(self):
        return int(self.braced(self.take)) if self.accept("^") else 1

    def differentiated(self, top, above, value, bottom, below, order=1):
        stored = self.lookup(f"d{top}_d{bottom}", above + below)
        self.names.remove(f"d{top}_d{bottom}")
        self.lookup(bottom, below)  # for its name and indices
        if value is None:
            value = self.lookup(top, above) if top else self.product()
        entry = value
        for _ in range(order):
            entry = _gradient(entry, bottom, [index for index, _ in below])
        return lambda env: (stored if f"d{top}_d{bottom}" in env else entry)(env)

    def variable(self):
        if self.accept(r"\partial"):  # \partial y/\partial x, in a line
            top, above = self.symbol()
            self.take("/")
            self.take(r"\partial")
            return self.differentiated(top, above, None, *self.symbol())
        name, indices = self.symbol()
        if name == "delta" and indices:
            return lambda env: float(len({index(env) for index, _ in indices}) == 1)
        if name in self.functions and not indices and self.peek() == "(":
            argument = self.group()
            self.names.add(name)
            return lambda env: env[f"{name}()" if f"{name}()" in env else name](argument(env))
        if name == "Im":
            return _apply(lambda number: number.imag, self.factor())
        return self.lookup(name, indices)

    def symbol(self):
        """A name with all that belongs to it, and its indices.

        An index is a function of env, or a letter, or None.
        """
        accent = self.accept(*ACCENTS) or ""
        if self.accept(r"\mathbf"):
            name = "bold" + self.braced(self.take)
        elif accent:
            name = accent + self.braced(self.take)
        else:
            name = self.word() or self.take()
        if name == "d" and self.tokens[self.at - 1] == "}":  # \mathrm{d}x
            name += self.take()
        name = name.replace("\\", "")
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
        self.names.add(name)
        for axis, (_, letter) in enumerate(indices):
            if letter:
                self.used.setdefault(letter, []).append((name, axis))

        def value(env):
            at = [round(index(env)) for index, _ in indices]
            found = env[entry_of(env, name) if at else name]
            if isinstance(found, dict):
                return found[at[0]]
            if 0 in at:
                raise IndexError(f"{name} starts at 1")
            return found[tuple(k - 1 for k in at)] if at else found

        return value


def _multiply(a, b):
    return lambda env: _product(a(env), b(env))


def _dot(a, b):
    return b if a is None else lambda env: _product(a(env), b(env), dot=True)


def _divide(a, b):
    return lambda env: a(env) / b(env)


def _product(a, b, dot=False):
    dimensions = np.ndim(a), np.ndim(b)
    if dimensions == (1, 2):  # a column times a row
        return a[:, None] * b
    if dimensions == (2, 1) and len(a) == 1:  # a row times a column
        return (a @ b)[0]
    if dimensions in {(2, 1), (2, 2)} or (dot and dimensions == (1, 1)):
        return a @ b
    return a * b


def _power(a, b):
    return a if b is None else lambda env: _raised(a(env), b(env))


def _raised(base, exponent):
    """A square table to a power is a product of matrices."""
    if np.ndim(base) == 2 and base.shape[0] == base.shape[1]:
        return functools.reduce(operator.matmul, [base] * round(float(exponent)))
    return base**exponent


def _apply(function, a):
    return lambda env: function(a(env))


def _elementwise(name):
    """tanh, exp, ... of a number, an array or a tensor."""
    return lambda v: getattr(v, name)() if _is_tensor(v) else getattr(np, name)(v)


def _is_tensor(value):
    return hasattr(value, "requires_grad")


def _length(row):
    return (row * row).sum() ** 0.5


def _transpose(value):
    return value[None] if np.ndim(value) == 1 else value.T


def _row(entries):
    import torch  # formulas of equations.md have no rows, and need none

    return torch.stack([torch.as_tensor(entry, dtype=torch.float64) for entry in entries])


def _gradient(value, name, indices=()):
    """The derivative by an entry of the environment, or by its element at these indices."""

    def derivative(env):
        found = value(env)
        if np.ndim(found) == 0:
            slopes = _by(found, env[name])
        else:  # of a row: its Jacobian
            slopes = _row([_by(entry, env[name]) for entry in found])
        at = tuple(round(index(env)) - 1 for index in indices)
        return slopes[at] if at else slopes

    return derivative


def _by(number, tensor):
    import torch  # there already: only a tensor has a derivative

    options = {"create_graph": True, "materialize_grads": True, "allow_unused": True}
    return torch.autograd.grad(number, tensor, **options)[0]
