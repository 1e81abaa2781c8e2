"""What must hold of a lesson and of its solutions, beside the rules for every notebook."""

import ast
import dis
import re
from pathlib import Path

from normcourse.lesson import COLLAPSED, EVIDENCE, Notebook, outside_folds
from tests.notebooks import (  # noqa: F401  register their rules
    exercise_rules,
    formula_rules,
    prediction_rules,
    prose_rules,
    reading_rules,
    reported_rules,
)
from tests.notebooks.notebook_rules import RULES, parsed, rule

MIN_EXERCISES = 2
LAST_SECTIONS = ["What to remember", EVIDENCE]
UNTIL_REWRITTEN = ["What to remember", "Sources"]  # of a lesson without the section Evidence
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial"}
DRAWS_IN_PLACE = re.compile(
    r"(normal|uniform|bernoulli|exponential|random|orthogonal|trunc_normal|\w+_uniform|\w+_normal)_"
)
NO_GENERATOR = {"manual_seed", "seed", "rand_like", "randn_like", "randint_like"}


@rule("lesson", "solutions")
def float64_first(notebook):
    if not notebook.code or "torch.set_default_dtype(torch.float64)" not in notebook.code[0].source:
        yield "the first code cell calls torch.set_default_dtype(torch.float64)"


@rule("lesson")
def last_sections(notebook):
    headings = [
        h
        for cell in notebook.markdown
        for h in re.findall(r"^## +(?:\d+\. *)?(.+?) *$", cell.source, re.M)
    ]
    wanted = LAST_SECTIONS if EVIDENCE in headings else UNTIL_REWRITTEN
    if headings[-2:] != wanted:
        yield f"the last sections (## …) are {wanted}, not {headings[-2:]}"


@rule("lesson")
def evidence_is_folded(notebook):
    """Below its heading only headings and folds; code is tagged; the sources are in it."""
    cells = notebook.evidence
    if not cells:
        if re.search(rf"^## {EVIDENCE}", notebook.text, re.M):
            yield f"'## {EVIDENCE}' is the first line of a Markdown cell"
        return
    if not cells[0].metadata.get(COLLAPSED):
        yield f"{cells[0].id}: it is open in JupyterLab: run python -m tools.notebooks"
    for cell in cells:
        if cell.cell_type == "code" and "hide-input" not in cell.tags:
            yield f"{cell.id}: code in the section {EVIDENCE}: tag it hide-input"
        elif cell.cell_type == "markdown":
            outside = re.sub(r"^#+ .*$", "", outside_folds(cell.source), flags=re.M).split()
            if outside:
                yield f"{cell.id}: {' '.join(outside[:6])!r} is open: put it into <details>"
    if not any(re.search(r"^### Sources$", cell.source, re.M) for cell in cells):
        yield f"{cells[0].id}: the section {EVIDENCE} has no heading ### Sources"


def exercises(notebook):
    """(number, stub, next code cell) of each exercise."""
    for cell, following in zip(notebook.code, [*notebook.code[1:], None], strict=True):
        if match := re.fullmatch(r"ex(\d+)-stub", cell.id):
            yield int(match[1]), cell, following


@rule("lesson")
def exercises_with_checks(notebook):
    found = list(exercises(notebook))
    numbers = [number for number, *_ in found]
    if numbers != list(range(1, len(found) + 1)) or len(found) < MIN_EXERCISES:
        yield (
            f"needs cells ex1-stub, ex2-stub, … (at least {MIN_EXERCISES}), "
            f"has the numbers {numbers}"
        )
    if numbers != (stated := [exercise.number for exercise in notebook.exercises]):
        yield (
            f"the cells exN-stub have the numbers {numbers}, the exercises' headings {stated}: "
            "a heading is a line `**3. Title** · 10 minutes`"
        )
    for _, stub, following in found:
        if "hide-input" in stub.tags:
            yield f"{stub.id}: it is folded, and nobody sees where to write: take hide-input away"
        if following is None or not following.checks:
            yield f"{stub.id}: the next code cell calls the exercise's check: check.name(…)"
        elif not any(
            text.startswith("[ ]") for output in following.outputs for text in output.texts
        ):
            yield (
                f"{following.id}: the stored verdict is '[ ] … not attempted yet': restore the stub"
            )


@rule("lesson")
def answers_keep_their_names(notebook):
    """No other cell gives the name of an answer away: a cell below may call the reader's own."""
    for _, stub, following in exercises(notebook):
        if following is None:
            continue
        asked = {node.id for node in ast.walk(parsed(following)) if isinstance(node, ast.Name)}
        answers = bound(stub) & asked
        for cell in notebook.code:
            for name in sorted(bound(cell) & answers if cell is not stub else ()):
                yield f"{cell.id}: {name} is the answer of {stub.id}: take another name"


def bound(cell) -> set[str]:
    """The names that a cell leaves: by =, def, import, and by a loop."""
    steps = dis.get_instructions(compile(parsed(cell), cell.id, "exec"))
    return {step.argval for step in steps if step.opname == "STORE_NAME"}


@rule("lesson", "solutions")
def asserts_something(notebook):
    for cell in notebook.code:
        for node in ast.walk(parsed(cell)):
            if isinstance(node, ast.Assert) and cannot_fail(node.test):
                yield f"{cell.id}: {ast.unparse(node)} cannot fail: compare what was computed"


def cannot_fail(test) -> bool:
    if not any(isinstance(node, ast.Name) for node in ast.walk(test)):
        return True
    return isinstance(test, ast.Compare) and ast.dump(test.left) == ast.dump(test.comparators[0])


@rule("solutions")
def solutions_are_tagged(notebook):
    for cell in notebook.code:
        if cell.id.endswith("-solution") != ("solution" in cell.tags):
            yield f"{cell.id}: cells exN-solution, and no others, have the tag solution"


@rule("solutions")
def solved(notebook):
    lines = [
        line
        for c in notebook.code
        for o in c.outputs
        for text in o.texts
        for line in text.splitlines()
    ]
    if any(line.startswith(("[x]", "[ ]")) for line in lines):
        yield "every verdict is [ok]"
    if sum(line.startswith("[ok]") for line in lines) < MIN_EXERCISES:
        yield f"shows at least {MIN_EXERCISES} verdicts [ok]"


@rule("lesson", "solutions")
def seeded(notebook):
    for cell in notebook.code:
        for call in (node for node in ast.walk(parsed(cell)) if isinstance(node, ast.Call)):
            if fault := unseeded(call):
                yield f"{cell.id}: {fault}"


def unseeded(call: ast.Call) -> str | None:
    """What is wrong with a call that draws from the global random state."""
    owner, _, name = ast.unparse(call.func).rpartition(".")
    draws = (owner == "torch" and name in DRAWS) or DRAWS_IN_PLACE.fullmatch(name)
    if draws and all(keyword.arg != "generator" for keyword in call.keywords):
        return f"{name} draws from the global state: add generator=torch.Generator().manual_seed(…)"
    if (owner in {"torch", "torch.random"} and name in NO_GENERATOR) or owner == "random":
        return f"{owner}.{name} uses the global state: draw with a local torch.Generator"
    if owner.endswith("np.random") and (name != "default_rng" or not call.args):
        return f"np.random.{name}: draw with a local torch.Generator"
    return None


def complaints(path: Path) -> dict[str, list[str]]:
    """The rules, of all kinds, that the notebook breaks, each with what it complains about."""
    notebook = Notebook(path)
    rules = {
        name: check for name, (kinds, check) in RULES.items() if not kinds or notebook.kind in kinds
    }
    return {name: found for name, check in rules.items() if (found := list(check(notebook)))}
