r"""What the formulas of a lesson and its solutions state is true, with a tag or without.

Formulas under a tag are copied from equations.md and tried there. All others are evaluated here,
with the numbers of tests/equations/bindings_lines.py.

Every displayed line without a tag is evaluated at two random points, and both sides of each `=`,
`\leq`, `\approx` are compared; so is a formula in a line of text, if its letters are bound. A
complaint names the cell, the line, the two sides and their values. Within a fold, where derivations
and hints are, a formula of a line is held to the same. A line that ends in
`\text{(wrong)}` has to be wrong. A formula with one side cannot be tried: in a derivation a longer
sum says what it equals, `$(x_{j} - \mu)^{2} = x_{j}^{2} - 2 \mu x_{j} + \mu^{2}$`. A formula whose
letters are not bound, with the left side of a tagged equation of the lesson, repeats or equals its
right side.
"""

import re
from functools import cache
from pathlib import Path

import numpy as np

from tests.equations import latex
from tests.notebooks.notebook_rules import rule

EQUATIONS = Path(__file__).parents[2] / "notebooks" / "reference" / "equations.md"
BINDINGS = "tests/equations/bindings_lines.py"
FOLD = re.compile(r"<details>.*?</details>", re.S)
SIGNS_ENOUGH = 6  # letters, numbers and signs of a sum that has to say what it equals


def place(notebook, cell) -> str:
    """What bindings_lines.py calls a cell: 02 gradient-size, solutions/04 ex6."""
    folder = "solutions/" if notebook.kind == "solutions" else ""
    return f"{folder}{notebook.path.name.partition('_')[0]} {cell.id}"


def formulas(notebook):
    """(cell, formula) of all that has no tag."""
    from tests.equations import lines  # needs torch

    for cell in notebook.markdown:
        for formula in lines.formulas(cell.id, cell.source):
            yield cell, formula


@rule("lesson", "solutions")
def displayed_lines(notebook):
    """A displayed line without a tag is evaluated, and both its sides agree."""
    from tests.equations import bindings_lines, lines

    for cell, formula in formulas(notebook):
        where = place(notebook, cell)
        excepted = bindings_lines.NOT_EVALUATED.get(where, {})
        if not formula.displayed or any(map(formula.source.startswith, excepted)):
            continue
        shown = f"$${' '.join(formula.source.split())}$$"
        try:
            found = lines.verdicts(where, formula)
        except SyntaxError as error:
            yield f"{cell.id}: {shown} cannot be read ({error}): write it as left = right"
            continue
        if lines.WRONG in formula.source:
            if not any(verdict.wrong for verdict in found):
                yield f"{cell.id}: {shown} calls itself wrong, and nothing in it is: mend the text"
            continue
        for verdict in found:
            if not verdict.known:
                missing = lines.missing(where, formula, verdict.relation)
                yield (
                    f"{cell.id}: nobody evaluates {shown}, because {missing} is bound to no number "
                    f'there: add @lines("{where}") to a binding in {BINDINGS} that has it, or name '
                    "the line in NOT_EVALUATED, with the reason"
                )
            elif verdict.wrong:
                yield f"{cell.id}: {shown} {verdict.wrong}: mend it, or what {BINDINGS} binds there"


@rule("lesson", "solutions")
def formulas_in_a_line(notebook):
    """A formula in a line is arithmetic that holds, or holds for the letters of its cell.

    In a fold they are bound, unless it only says what a letter is; elsewhere, where they are not
    bound, it repeats the tagged one with its left side.
    """
    from tests.equations import bindings_lines, lines

    text = "\n\n".join(cell.source for cell in notebook.markdown)
    stated = [tag for tag in page_relations() if re.search(rf"\*\*\[{tag}\]\*\*", text)]
    for cell, formula in formulas(notebook):
        where = place(notebook, cell)
        if formula.displayed or formula.source in bindings_lines.SETTINGS.get(where, {}):
            continue
        try:
            found = lines.verdicts(where, formula)
        except SyntaxError:  # a symbol, a product, ...
            continue
        for verdict in found:
            if verdict.wrong:
                yield (
                    f"{cell.id}: ${formula.source}$ {verdict.wrong}: mend it, "
                    f"or what {BINDINGS} binds there"
                )
            elif not verdict.known and folded(cell, formula) and states(verdict.relation):
                missing = lines.missing(where, formula, verdict.relation)
                yield (
                    f"{cell.id}: nobody evaluates ${formula.source}$, because {missing} is bound "
                    f'to no number there: add @lines("{where}") to a binding in {BINDINGS} that '
                    "has it, or name the formula in SETTINGS, with the reason"
                )
            elif not verdict.known and (tag := differs(verdict.relation, stated)):
                yield (
                    f"{cell.id}: ${formula.source}$ is not what {tag} says: copy the right side "
                    "from equations.md, or name another quantity on the left"
                )


def folded(cell, formula) -> bool:
    return any(formula.source in " ".join(fold.split()) for fold in FOLD.findall(cell.source))


def states(relation) -> bool:
    """Whether a relation says more than what a letter is: B = 2 u is a name, q + 2k = 1 is not."""
    from tests.equations import lines

    return not lines.is_setting(relation) and not any(map(lines.SYMBOL.fullmatch, sides(relation)))


@rule("lesson", "solutions")
def one_sided_sums(notebook):
    """A longer sum within a derivation, or a solution, says what it equals.

    Then a machine can try it. Or it repeats a part of another formula.
    """
    from tests.equations import lines

    text = "\n\n".join(cell.source for cell in notebook.markdown)
    written = characters("  ".join(lines.DISPLAYED.findall(text)))
    written += characters("  ".join(lines.INLINE.findall(lines.DISPLAYED.sub(" ", text))))
    for cell, formula in formulas(notebook):
        derives = notebook.kind == "solutions" or "derivation" in cell.tags
        if formula.displayed or not derives or not is_long_sum(formula.source):
            continue
        if written.count(characters(formula.source)) < 2:
            yield (
                f"{cell.id}: ${formula.source}$ stands alone: write what it equals, "
                "left = right, so that both sides can be evaluated"
            )


def is_long_sum(source: str) -> bool:
    try:
        parsed = latex.expression(source)
    except (SyntaxError, IndexError, ValueError):
        return False
    signs = [token for token in parsed.tokens if token not in latex.NO_SIGNS]
    return bool(parsed.spans["term"] and parsed.names and len(signs) >= SIGNS_ENOUGH)


def characters(source: str) -> str:
    """LaTeX without what only moves it."""
    return re.sub(r"\s|\\[,;!]|\\(?:left|right|quad|qquad)(?![a-z])", "", source)


# What the tagged equations say


@cache
def page_relations():
    """Tag -> its relations."""
    page = EQUATIONS.read_text("utf-8")
    return {tag: latex.relations(block) for tag, block in latex.blocks(page).items()}


def sides(relation) -> tuple[str, str]:
    at = relation.tokens.index(relation.sign)
    return "".join(relation.tokens[:at]), "".join(relation.tokens[at + 1 :])


def holds(relation, env) -> bool:
    try:
        pairs = [tuple(map(np.asarray, pair)) for pair in relation.sides(env)]
    except (ArithmeticError, LookupError, TypeError, ValueError):  # a name that is not there, say
        return False
    return all(np.allclose(left, right, rtol=1e-9, atol=1e-9) for left, right in pairs)


def differs(relation, tags) -> str | None:
    """The tags that state another right side for this left side."""
    from tests.equations import lines

    left, right = sides(relation)
    if relation.sign != "=" or lines.is_number(right):  # a special case, as in: for mu = 0
        return None
    same = [tag for tag in tags if any(sides(known)[0] == left for known in page_relations()[tag])]
    if not same or any(
        sides(known) == (left, right) for tag in same for known in page_relations()[tag]
    ):
        return None
    from tests.equations import test_equation_values  # binds every tag to the code

    for tag in same:
        if all(holds(relation, env) for env in test_equation_values.environments(tag)):
            return None
    return ", ".join(same)
