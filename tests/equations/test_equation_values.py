"""Every formula of equations.md agrees with the code, and every error planted in it shows."""

import re
from pathlib import Path

import numpy as np
import pytest

import tests.equations.bindings_cost
import tests.equations.bindings_facts
import tests.equations.bindings_forward
import tests.equations.bindings_gradients
import tests.equations.bindings_norms
import tests.equations.bindings_pointwise
import tests.equations.bindings_signal
import tests.equations.bindings_spectra  # noqa: F401
from tests.equations import latex
from tests.equations.bindings import BINDINGS, PAGE, environments
from tests.equations.mutants import mutants
from tests.failing import fail
from tests.named_things import shown

TEXT = PAGE.read_text("utf-8")
BLOCKS = latex.blocks(TEXT)
RELATIONS = {tag: latex.relations(block) for tag, block in BLOCKS.items()}
# an index out of range, say
NO_VALUE = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)

DELTA = "delta is symmetric in its indices"
DIAGONAL = "under delta the two indices are the same"
EQUIVALENT = {  # planted errors that are none: tag -> name -> reason
    "EQ-BN-JACOBIAN": {r"transposed: (\delta_{n,k}-\frac": DELTA},
    "EQ-LN-JACOBIAN": {r"transposed: (\delta_{i,j}-\frac": DELTA},
    "EQ-RMS-JACOBIAN": {r"transposed: (\delta_{i,j}-\frac": DELTA},
    "EQ-UNIT-JACOBIAN": {r"transposed: (\delta_{i,j}-u": DELTA},
    "EQ-SOFTMAX-JACOBIAN": {r"transposed: (\delta_{i,j}-p": DELTA},
    "EQ-DYT-JACOBIAN": {
        r"transposed: =\delta_{i,j}w_": DELTA,
        r"j for i: }w_{i}\alpha(": DIAGONAL,
        r"j for i: \alphax_{i}}{": DIAGONAL,
    },
    "EQ-DYISRU-JACOBIAN": {
        r"transposed: =\delta_{i,j}w_": DELTA,
        r"j for i: }w_{i}\frac{": DIAGONAL,
        r"j for i: (x_{i}^{": DIAGONAL,
    },
    "EQ-RESIDUAL": {r"transposed: =\delta_{i,j}+J": DELTA},
    "EQ-LN-INVARIANCE": {
        "sign: }(ax+k)=": "it holds for every k",
        r"no term: }(ax+k)=\mathrm": "it holds for every k, so for 0",
    },
}
# of the sources and of their readers: tag -> what the page says -> what it must not say
MISTAKES = {
    "EQ-RMS-GRAD": (
        r"\frac{1}{r_{n}} \left( w_{i}\, \frac{\partial L}{\partial y_{n,i}}",
        r"\frac{w_{i}}{r_{n}} \left( \frac{\partial L}{\partial y_{n,i}}",
    ),
    "EQ-LN-GRAD": (
        r"\hat{x}_{n,i}\, \frac{1}{D} \sum_{j=1}^{D} g_{n,j}\, \hat{x}_{n,j} \right)",
        r"0 \right)",
    ),
    "EQ-LN-JACOBIAN": (r"\delta_{i,j} - \frac{1}{D} -", r"\delta_{i,j} -"),
    "EQ-BN-RUNNING": (r"\frac{m}{m - 1}\, \sigma_{c}^{2}", r"\sigma_{c}^{2}"),
    "EQ-PRE-LN": (r"x + F(\mathrm{LN}(x))", r"\mathrm{LN}(x + F(x))"),
    "EQ-POST-LN": (r"\mathrm{LN}(x + F(x))", r"x + F(\mathrm{LN}(x))"),
    "EQ-RMS": (
        r"\sum_{j=1}^{D} x_{j}^{2} + \varepsilon}",
        r"\sum_{j=1}^{D} x_{j}^{2}} + \varepsilon",
    ),
    "EQ-RMS-VAR": (r"\frac{q}{q + \varepsilon}", r"\frac{1}{r^{2}}"),
    "EQ-RMS-SPECTRUM": (r"\frac{1}{r},", r"\frac{1}{r \sqrt{D}},"),
    "EQ-FLOPS": (r"4 D + 2", r"3 D + 2"),
    "EQ-BERNOULLI": (
        r"\left( u_{i} - \frac{1}{D} \right)",
        r"\left( \frac{1}{u_{i}} - \frac{1}{D} \right)",
    ),
    "EQ-DYT-BOUNDS": (r"\frac{4}{3 \sqrt{3}}\, \frac{\alpha^{2}}{\kappa}", r"\alpha"),
    "EQ-DYISRU-BOUNDS": (r"\frac{\kappa}{\sqrt{c}}", r"\frac{\kappa}{c}"),
    "EQ-DYISRU-EXACT": (r"\sum_{j \neq i} x_{j}^{2}", r"\sum_{j=1}^{D} x_{j}^{2}"),
    "EQ-TANH-SETS": (
        r"\frac{1 + \sqrt{1 - \varepsilon}}{1 - \sqrt{1 - \varepsilon}}",
        r"\frac{2 - \varepsilon}{\varepsilon}",
    ),
    "EQ-SPECTRAL-RADIUS": (r"\rho \leq c", r"c \leq \rho"),
    "EQ-POWERS": (r"n_{t} \leq c^{t}", r"n_{t} \leq \rho^{t}"),
    "EQ-INIT": (
        r"\sum_{j=1}^{n_{\mathrm{in}}} x_{j}^{2}",
        r"\sum_{j=1}^{n_{\mathrm{in}}} x_{j}^{2} - (\mathrm{E}(x))^{2}",
    ),
    "EQ-XAVIER": (
        r"\frac{2}{n_{\mathrm{in}} + n_{\mathrm{out}}}",
        r"\frac{1}{\sqrt{n_{\mathrm{in}}\, n_{\mathrm{out}}}}",
    ),
    "EQ-RESIDUAL-CHAIN": (r"B_{i,k}\, A_{k,j}", r"A_{i,k}\, B_{k,j}"),
}


def agrees(relation, cases):
    found = []
    for env in cases:
        pairs = list(relation.sides(env))
        found.append(
            [
                np.concatenate([np.ravel(side) for side in sides])
                for sides in zip(*pairs, strict=True)
            ]
        )
    if relation.sign == r"\leq":  # never above, and in one case equal throughout
        below = all((left <= right + 1e-9).all() for left, right in found)
        return bool(
            below and any(np.allclose(left, right, rtol=1e-9, atol=0.0) for left, right in found)
        )
    # A step of 1e-5 neglects about 1e-5 of the change. Else: sums of some 20 float64 numbers of
    # order 1.
    rtol, atol = (1e-3, 0.0) if relation.sign == r"\approx" else (1e-9, 1e-9)
    return all(np.allclose(left, right, rtol=rtol, atol=atol) for left, right in found)


def survives(tokens, cases):
    try:
        with np.errstate(all="ignore"):
            return agrees(latex.Relation.parse(tokens), cases)
    except NO_VALUE:
        return False


def test_every_equation_is_evaluated():
    assert set(BLOCKS) == set(re.findall(r"^### (\S+)", TEXT, re.M))
    for tag in set(BLOCKS) - set(BINDINGS):
        environments(tag)
    for tag in set(BINDINGS) - set(BLOCKS):
        fail(where(tag), f"{PAGE.name} has no {tag}", edit="the binding, or add the equation")


def where(tag):
    """The file with the binding, and its function."""
    function = BINDINGS[tag]
    return f"{shown(Path(function.__code__.co_filename))}, {function.__name__}"


def check(tag, relations, cases):
    """The formula holds for the numbers of the code."""
    for relation in relations:
        formula = " ".join(relation.tokens)
        try:
            holds = agrees(relation, cases)
        except KeyError as missing:
            what = f"it gives no {missing} for {tag}, which says {formula}"
            fail(where(tag), what, edit="what the binding returns")
        if not holds:
            what = f"{formula} is not true of the numbers that {where(tag)} takes from the code"
            fail(f"{shown(PAGE)}, {tag}", what, edit="the one that is wrong")


@pytest.mark.parametrize("tag", BLOCKS)
def test_the_formula_agrees_with_the_code(tag):
    assert RELATIONS[tag]
    check(tag, RELATIONS[tag], environments(tag))


def test_a_binding_that_is_not_there_or_gives_too_little_is_named(monkeypatch):
    tag = "EQ-RMS"
    complete = BINDINGS[tag]
    monkeypatch.setitem(BINDINGS, tag, lambda draw: {**complete(draw), "r": 7.0})
    with pytest.raises(pytest.fail.Exception, match=r"equations.md, EQ-RMS: .* is not true"):
        check(tag, RELATIONS[tag], environments(tag))
    monkeypatch.setitem(BINDINGS, tag, lambda draw: {"D": 4})
    with pytest.raises(pytest.fail.Exception, match=r"test_equation_values.py, .* gives no '\w+' "):
        check(tag, RELATIONS[tag], environments(tag))
    monkeypatch.delitem(BINDINGS, tag)
    with pytest.raises(pytest.fail.Exception, match=r'nothing computes EQ-RMS.*@bind\("EQ-RMS"\)'):
        environments(tag)


@pytest.mark.parametrize("tag", BLOCKS)
def test_every_planted_error_shows(tag):
    cases = environments(tag)
    planted = [mutant for relation in RELATIONS[tag] for mutant in mutants(relation)]
    alive = {name for name, tokens in planted if survives(tokens, cases)}
    expected = set(EQUIVALENT.get(tag, {}))
    if alive != expected:
        what = f"of the errors planted in {tag} these are not seen: {sorted(alive - expected)}"
        if expected - alive:
            what = f"{sorted(expected - alive)} is seen now: take it out of EQUIVALENT"
        fail(where(tag), what, edit="the numbers, or say in EQUIVALENT why it is no error")


@pytest.mark.parametrize("tag", MISTAKES)
def test_the_mistakes_of_the_sources_show(tag):
    said, mistaken = MISTAKES[tag]
    assert BLOCKS[tag].count(said) == 1
    wrong = latex.relations(BLOCKS[tag].replace(said, mistaken))
    assert not all(agrees(relation, environments(tag)) for relation in wrong)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("2 - 3 + 4", 3),
        ("-a^{2} b", -12),
        (r"\frac{a}{b} a", 4 / 3),
        (r"\sum_{i=1}^{2} x_{i} b + 1", 10),  # a sum takes the product after it, not the rest
        (r"b \sum_{k=0}^{2} k^{2}", 15),
        (r"\max_{i} \lvert x_{i} - 3 \rvert", 2),
        (r"\lVert x - 1 \rVert^{2}", 1),
        ("4^{3/2} / 2 / 2", 2),
        (r"\tanh^{2}(a) + \delta_{1,2} + \delta_{2,2}", np.tanh(2) ** 2 + 1),
        (r"\frac{\partial L}{\partial x_{2}} + \hat{x}_{\mathrm{B}}", 6),
    ],
)
def test_the_evaluator(formula, value):
    env = {
        "a": 2.0,
        "b": 3.0,
        "x": np.array([1.0, 2.0]),
        "dL_dx": np.array([4.0, 5.0]),
        "hatx_B": 1.0,
        "y": value,
    }
    (relation,) = latex.relations(f"$$ y = {formula} $$")
    assert agrees(relation, [env])
    assert not agrees(relation, [env | {"y": value + 1e-6}])


@pytest.mark.parametrize(
    "formula", ["y", "y = ", "y = a b)", "y = (a", r"y = \unknown!?", "y = a - + b", "y = {a}"]
)
def test_what_is_no_formula_is_refused(formula):
    with pytest.raises(SyntaxError):
        latex.relations(formula)
