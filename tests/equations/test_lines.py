"""The untagged lines of the lessons: what is planted in them shows, and no binding is left over."""

import re
from pathlib import Path

import pytest

from normcourse.lesson import Notebook
from tests import deck_rules
from tests.equations import bindings_lines, lines
from tests.notebooks import formula_rules

ROOT = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = {}
for path in [*ROOT.glob("[0-9]*.ipynb"), *ROOT.glob("solutions/[0-9]*.ipynb")]:
    folder = "solutions/" if path.parent.name == "solutions" else ""
    NOTEBOOKS[folder + path.name.partition("_")[0]] = path

BLOCK, LINE, ALONE = "displayed_lines", "formulas_in_a_line", "one_sided_sums"
PLANTED = [  # where, what is there, what is planted, the rule that sees it
    ("07a variance-merge", r"+ M_{\mathrm{b}} + n", r"+ M_{\mathrm{b}} - n", BLOCK),
    ("02 gradient-why", r"- \hat{x}_{j}\, \frac", r"+ \hat{x}_{j}\, \frac", LINE),
    ("05a attention-derive", r"(\mathrm{E}(q k))^{2}", r"\mathrm{E}(q k)", BLOCK),
    ("04 collect-derive", r"\frac{(8, -1, 6, -5)}{9}", r"\frac{(8, 1, 6, -5)}{9}", LINE),
    ("04a steps-derive", r"\frac{h^{2}}{6} f'''", r"\frac{h^{2}}{3} f'''", BLOCK),
    ("04a spectrum-derive", r"J v = \frac{1}{r} (v - ", r"J v = \frac{1}{r} (v + ", LINE),
    ("05 derive-solution", r"= \frac{x}{\rho} + C", r"= -\frac{x}{\rho} + C", BLOCK),
    ("06 derive-bernoulli", r"( y^{-2} - \frac{1}{D}", r"( y^{-2} + \frac{1}{D}", BLOCK),
    ("06a plain-why", r"= \frac{1}{18}", r"= \frac{1}{16}", BLOCK),
    ("08a holm-derive", r"u \cdot \frac{0.05}{u}", r"u + \frac{0.05}{u}", BLOCK),
    ("04 failure-why", r"\frac{w_{i}}{r} \left( \frac", r"\frac{1}{r} \left( w_{i} \frac", BLOCK),
    ("03 derive-variance", r"= x_{j}^{2} - 2 \mu", r"= x_{j}^{2} + 2 \mu", LINE),
    ("03 derive-variance", r"$\sigma^{2} = q - \mu", r"$\sigma^{2} = q + \mu", LINE),
    ("01 hand", r"$\sqrt{5 + 4} = 3$", r"$\sqrt{5 + 4} = 2$", LINE),
    ("06b slopes-why", r"\frac{18}{25}", r"\frac{17}{25}", LINE),
    ("03 derive-variance", r"$(x_{j} - \mu)^{2} = x", "$x", ALONE),
]  # fmt: skip


def complaints(where, there=None, planted=None):
    """{rule: what it says of one cell}, after something is planted in it."""
    label, _, name = where.partition(" ")
    notebook = Notebook(NOTEBOOKS[label])
    (cell,) = (cell for cell in notebook.cells if cell.id == name)
    if there:
        assert there in cell.source, f"{where} no longer has {there}"
        cell.source = cell.source.replace(there, planted)
    rules = formula_rules.displayed_lines, formula_rules.formulas_in_a_line
    rules = *rules, formula_rules.one_sided_sums
    found = {rule.__name__: list(rule(notebook)) for rule in rules}
    return {
        rule: [text for text in texts if text.startswith(f"{name}: ")]
        for rule, texts in found.items()
    }


def quick():
    """PLANTED, of which the first two for each rule run in make test."""
    seen = []
    for row in PLANTED:
        rule = row[-1]
        yield pytest.param(*row, marks=pytest.mark.selftest if seen.count(rule) > 1 else ())
        seen.append(rule)


@pytest.mark.parametrize(
    ("where", "there", "planted", "rule"), list(quick()), ids=[row[0] for row in PLANTED]
)
def test_what_is_planted_shows(where, there, planted, rule):
    assert not any(complaints(where).values())
    found = complaints(where, there, planted)
    assert found[rule], found


def test_a_complaint_names_the_two_sides_and_their_values():
    (said,) = complaints("06a plain-why", r"= \frac{1}{18}", r"= \frac{1}{16}")["displayed_lines"]
    assert "the left side is 0.055556, the right side 0.0625: mend it" in said


def test_a_new_line_is_not_forgotten():
    (said,) = complaints("02a stream-derive", r"$$", "$$\n\\zeta = x_{1} + \\xi\n$$\n\n$$")[
        "displayed_lines"
    ][:1]
    assert "xi, zeta" in said and '@lines("02a stream-derive")' in said


# The tables


def stated():
    """Where -> its untagged formulas."""
    texts = {
        f"{label} {cell.id}": cell.source
        for label, path in NOTEBOOKS.items()
        for cell in Notebook(path).markdown
    }
    for path in deck_rules.DECKS:
        for heading, body in deck_rules.slides(path.read_text("utf-8")):
            texts[deck_rules.place(path.stem, heading)] = body
    return {where: list(lines.formulas(where, text)) for where, text in texts.items()}


STATED = stated()


@pytest.mark.parametrize("key", bindings_lines.CELLS)
def test_each_binding_is_needed_where_it_is_listed(key):
    """Each decides a formula of the cell: no binding stays behind when a lesson changes."""
    where, _, start = (key, "", "") if key in STATED else key.partition(" $")
    assert where in STATED, f"{where}: no such cell; take it out of @lines, or name the new one"
    chosen = [formula for formula in STATED[where] if formula.source.startswith(start)]
    for bind in bindings_lines.CELLS[key]:
        points = lines.points_of(bind)
        assert any(decides(points, formula) for formula in chosen), (
            f"{bind.__name__} makes no formula of {where} true: take {key!r} out of its @lines"
        )


def decides(points, formula) -> bool:
    for source in lines.with_signs(formula.source):
        try:
            relations = lines.relations(source, lines.functions_of(points[0]))
        except SyntaxError:
            continue
        for relation in relations:
            verdict = lines.judged(relation, points, formula.displayed)
            if relation.names and verdict.known and not verdict.wrong:
                return True
    return False


@pytest.mark.parametrize("table", ["NOT_EVALUATED", "SETTINGS"])
def test_each_exception_is_there_and_has_a_reason(table):
    for where, excepted in getattr(bindings_lines, table).items():
        for start, reason in excepted.items():
            assert len(reason.split()) > 1, f"{where}: say why"
            assert any(formula.source.startswith(start) for formula in STATED[where]), (
                f"{where} has no {start}: take it out of {table}"
            )


# The reader


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("**[EQ-RMS]**\n$$\na = b\n$$", []),  # tried with its tag
        ("So $a = b$, and\n\n$$\nc = d\n$$", ["c = d", "a = b"]),
        ("`$HOME` and ```\n$x$\n```", []),
    ],
)
def test_formulas_of_a_text(text, found):
    assert [formula.source for formula in lines.formulas("cell", text)] == found


@pytest.mark.parametrize(
    ("source", "setting"),
    [
        ("D = 4", True), (r"\hat{x}_{1} = \frac{1}{2}", True), ("G = C", True),
        ("x = (3, 4)", True), (r"x = \ln 9", True),
        (r"x = \sqrt{D}", False), ("2 + 2 = 4", False), ("x^{2} = 4", False),
    ],
)  # fmt: skip
def test_what_gives_a_letter_a_value_states_nothing(source, setting):
    (relation,) = lines.relations(source)
    assert lines.is_setting(relation) == setting


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("1 + 1 = 2 = 4/2", True), ("1 + 1 = 2 = 3", False),
        ("(1, 2) + (3, 4) = (4, 6)", True), ("(1, 2) - (3, 4) = (4, 6)", False),
        ("2 < 3", True), ("3 < 2", False), (r"3 \geq 2", True), (r"2 \geq 3", False),
        (r"\sqrt{2} \approx 1.41", True), (r"\sqrt{2} \approx 1.42", False),
        (r"5 \pm 1 = 5 \pm 1", True), (r"4 = 5 \pm 1", True), (r"3 = 5 \pm 1", False),
        (r"1 = 2 - 1 \quad \text{with } 2 = 1 + 1", True),
        (r"1/0 = 1/0", False),
    ],
)  # fmt: skip
def test_arithmetic(source, holds):
    found = lines.verdicts("no cell", lines.Formula("cell", source, True))
    assert all(verdict.known for verdict in found)
    assert holds == (not any(verdict.wrong for verdict in found))


@pytest.mark.parametrize(
    "true",
    [
        r"x \cdot y = \sum_{i} x_{i} y_{i}", r"x^{\top} y = x \cdot y",
        r"x x^{\top} y = x\, (x \cdot y)", r"x \cdot W y = (W^{\top} x) \cdot y",
        r"W^{2} y = W W y", r"\frac{\partial L}{\partial x_{i}} = 2 x_{i} + y_{i}",
        r"\partial L/\partial x = 2 x + y", r"\frac{\partial (x \cdot y)}{\partial x_{j}} = y_{j}",
        r"\frac{\partial}{\partial x} (x \cdot x) = 2 x",
        r"\sum_{i \neq j} x_{i} x_{j} = (\sum_{i} x_{i})^{2} - x \cdot x",
        r"\sum_{i,k} W_{i,k} = \sum_{i} \sum_{k} W_{i,k}", r"n_{2} = n(2)",
    ],
)  # fmt: skip
def test_rows_matrices_and_derivatives(monkeypatch, true):
    def bind(draw):
        x, y, w = bindings_lines.leaf(draw(3)), draw(3), draw(3, 3)
        functions = {"n()": lambda k: 3 * k, "n[]": {1: 3.0, 2: 6.0}}
        return functions | {"x": x, "y": y, "W": w, "L": (x * x + x * y).sum()}

    monkeypatch.setitem(bindings_lines.CELLS, "toy", [bind])
    (verdict,) = lines.verdicts("toy", lines.Formula("toy", true, True))
    assert verdict.known and not verdict.wrong, verdict.wrong
    planted = re.sub("=", "= 2 +", true)
    (verdict,) = lines.verdicts("toy", lines.Formula("toy", planted, True))
    assert verdict.wrong
