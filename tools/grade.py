"""Grade a class's notebooks with fresh checks: `python -m tools.grade FOLDER [--seconds 300]`.

Of each notebook only the answers are taken, the cells NAME-stub. They are put into the course's
own lesson, and of that only what a check needs is run: in a temporary copy of the lessons, each
exercise in a process of its own, with a time limit. What the notebook says of itself is not read.

FOLDER/grades.csv has a line for each exercise: name, lesson, exercise, solved, slip.
solved is yes, no (also where the check called the answer and it raised an error), not attempted,
open (a person has to look), or unchecked: the answer's cell raised an error or is no Python, it ran
for too long, needs cells that are not the lesson's, or touches what it may not.

This runs strangers' code. What is looked for before it runs stops the clumsy and the curious, and
nobody who means it: use a container without a network.
"""

import argparse
import ast
import contextlib
import csv
import importlib
import io
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from normcourse import atomic
from normcourse.lesson import Cell, Notebook

ROOT = Path(__file__).resolve().parents[1]
COURSE = ROOT / "notebooks"
REPORT = "grades.csv"
COLUMNS = ("name", "lesson", "exercise", "solved", "slip")
SECONDS = 300
YES, NO, BLANK, OPEN, UNCHECKED = "yes", "no", "not attempted", "open", "unchecked"
MARKS = (YES, NO, BLANK, OPEN, UNCHECKED)
SOLVED = {"[ok]": YES, "[x]": NO, "[ ]": BLANK}
TOO_LONG = re.compile(r"your code (?:ran|has waited) for")
# What an answer never needs, and what reaches the check or the machine.
OUT_OF_BOUNDS = """
__import__ breakpoint check compile delattr eval exec exit gc get_ipython getattr globals importlib
input inspect IPython locals multiprocessing normcourse open os pathlib Path pickle quit runpy
setattr shutil signal socket subprocess sys tempfile threading vars
"""
IN_BOUNDS = {"__init__", "__name__", "__call__", "__len__", "__getitem__", "__iter__"}


@dataclass
class Asked:
    """One call of a check in a lesson."""

    cell: str  # its cell
    call: str  # check.layer_norm(my_layer_norm)
    is_open: bool

    @property
    def check(self) -> str:
        return self.call.partition("(")[0].removeprefix("check.")


@dataclass
class Lesson:
    path: Path
    cells: list[Cell]  # of code
    asked: list[Asked]

    @property
    def stubs(self) -> dict[str, str]:
        return {cell.id: cell.source for cell in self.cells if cell.id.endswith("-stub")}


# Reading


def lesson_at(path: Path) -> Lesson:
    notebook = Notebook(path)
    asked = [
        Asked(exercise.check.id, call, exercise.is_open)
        for exercise in notebook.exercises
        if exercise.check
        for call in calls_of_checks(exercise.check.source)
    ]
    return Lesson(path, notebook.code, asked)


def calls_of_checks(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("check."):
            yield ast.unparse(node)


def lesson_of(cells: list[Cell], lessons: list[Lesson]) -> Lesson | None:
    """The lesson that shares most cells with a notebook."""
    given = {(cell.id, cell.source) for cell in cells}

    def shared(lesson: Lesson) -> int:
        return len(given & {(cell.id, cell.source) for cell in lesson.cells})

    best = max(lessons, key=shared)
    return best if shared(best) else None


# What an answer may not touch, and what it needs


def out_of_bounds(source: str) -> str | None:
    """What an answer uses and may not, in words; SyntaxError for what is no Python."""
    forbidden = OUT_OF_BOUNDS.split()
    tree = ast.parse(source)
    names = [name for node in ast.walk(tree) for name in names_in(node)]
    for part in ".".join(names).split("."):
        hidden = part.startswith("__") and part.endswith("__") and part not in IN_BOUNDS
        if part in forbidden or hidden:
            return f"it uses {part}"
    for name in sorted(changed_from_outside(tree)):
        return f"it changes {name}, which is not its own"
    return None


def names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from re.findall(r"normcourse|__\w+__", node.value)  # getattr by another way


def changed_from_outside(tree: ast.AST) -> set[str]:
    """Names whose attributes an answer sets, though it neither makes them nor is given them."""
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    changed = {
        base_of(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Subscript)
        and isinstance(node.ctx, ast.Store | ast.Del)
    }
    return {name for name in changed if name and name not in own}


def base_of(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def makes(source: str) -> set[str]:
    """The names that a cell makes, or may change."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.add(base_of(node) or "")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found |= changed_by(node.value)
    return found


def changed_by(call: ast.Call) -> set[str]:
    """rows in rows.append(…), and net in train(net, …)."""
    owner = base_of(call.func) if isinstance(call.func, ast.Attribute) else None
    if owner == "check":
        return set()
    return {owner or ""} | {base_of(given) or "" for given in call.args}


def needs(source: str) -> set[str]:
    return {
        node.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def needed_cells(
    cells: list[Cell], asked: Asked, answers: dict[str, str] | None = None
) -> list[Cell]:
    """What has to run before a check: the setup, and each cell that makes what is needed later.

    An answer stands in its stub's place, whatever it makes.
    """
    answers = answers or {}
    before = cells[: [cell.id for cell in cells].index(asked.cell) + 1]
    wanted = needs(asked.call)
    found = []
    for cell in reversed(before):
        if cell.id == asked.cell or "raises-exception" in cell.tags:
            continue
        answer = answers.get(cell.id, cell.source)
        if cell.id == "setup" or (makes(cell.source) | makes(answer)) & wanted:
            found.append(cell.changed(source=answer))
            wanted |= needs(answer)
    return found[::-1]


# Grading


def grade(path: Path, name: str, lessons: list[Lesson], seconds: float) -> Iterator[dict]:
    """A row for each exercise of a notebook."""
    try:
        cells = Notebook(path).code
    except (OSError, ValueError):
        yield row(name, "", "", UNCHECKED, "the file is no notebook")
        return
    lesson = lesson_of(cells, lessons)
    if lesson is None:
        yield row(name, "", "", UNCHECKED, "no lesson of this course")
        return
    ids = [cell.id for cell in cells]
    answers = {cell.id: cell.source for cell in cells if cell.id in lesson.stubs}
    broken = {id: fault for id, source in answers.items() if (fault := no_python(source))}
    course = {(cell.id, cell.source) for cell in lesson.cells}
    others = [
        cell
        for cell in cells
        if (cell.id, cell.source) not in course
        and cell.id not in lesson.stubs
        and not cell.id.startswith("predict-")
        and cell.source.strip()
    ]
    module = importlib.import_module(f"normcourse.checks.{lesson.path.stem.partition('_')[2]}")
    for asked in lesson.asked:
        title = title_of(getattr(module, asked.check))
        solved, slip = graded(lesson, asked, answers, broken, ids, seconds)
        if others and solved == NO:
            solved = UNCHECKED
            slip = (
                f"{len(others)} cells that are not the lesson's were not run; without them: {slip}"
            )
        yield row(name, lesson.path.stem, title, solved, slip)


def graded(
    lesson: Lesson,
    asked: Asked,
    answers: dict[str, str],
    broken: dict[str, str],
    ids: list[str],
    seconds: float,
) -> tuple[str, str]:
    """solved and slip of one exercise; broken are the answers that are no Python, and why."""
    readable = answers | {id: lesson.stubs[id] for id in broken}
    needed = needed_cells(lesson.cells, asked, readable)
    for cell in needed:
        if cell.id in broken:
            return UNCHECKED, f"the cell {cell.id} is no Python: {broken[cell.id]}"
        if cell.id not in lesson.stubs:
            continue
        if ids.count(cell.id) != 1:
            return UNCHECKED, f"the cell {cell.id} is there {ids.count(cell.id)} times"
        if cell.source == lesson.stubs[cell.id]:
            continue
        trouble = out_of_bounds(cell.source)
        if trouble:
            return UNCHECKED, f"{cell.id}: {trouble}"
    verdict = checked(needed, asked.call, seconds)
    mark, _, said = verdict.partition(" Exercise ")
    slip = said.partition(": ")[2]
    if mark not in SOLVED or TOO_LONG.search(slip):
        return UNCHECKED, slip if mark in SOLVED else verdict
    if SOLVED[mark] == BLANK:
        return BLANK, ""
    if asked.is_open:
        return OPEN, f"the check says {mark} {slip}".strip()
    return SOLVED[mark], slip if SOLVED[mark] == NO else ""


def no_python(source: str) -> str | None:
    """What Python says of a text that it cannot read; None for one that it can."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return error.msg
    return None


def checked(cells: list[Cell], call: str, seconds: float) -> str:
    """What the check says, from a process of its own; a sentence where it says nothing."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(
        target=run, args=([(cell.id, cell.source) for cell in cells], call, theirs)
    )
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            return f"it ran for more than {seconds:g} s"
        return str(ours.recv())
    except EOFError:
        process.join()
        return f"its process ended (exit code {process.exitcode})"
    finally:
        stop(process)


def stop(process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)  # with what the answer started
    process.kill()
    process.join()


def run(cells: list[tuple[str, str]], call: str, answer: Connection) -> None:
    """In the process of one exercise: run the cells, then the check."""
    if hasattr(os, "setsid"):
        os.setsid()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    sys.stdin = io.StringIO()
    os.environ.pop("NORMLIB_SOLVED", None)
    namespace: dict = {"__name__": "__main__"}
    import_torch()
    before = fingerprint()
    for cell, source in cells:
        try:
            exec(compile(source, cell, "exec"), namespace)
        except BaseException as error:  # an answer may raise anything
            answer.send(f"the cell {cell} raised {type(error).__name__}: {error}"[:200])
            return
    verdict = eval(call, namespace)
    after = fingerprint()
    changed = [name for name, place in before.items() if after.get(name) != place]
    if changed:
        verdict = f"it changed {', '.join(changed[:3])}"
    answer.send(str(verdict))


def import_torch() -> None:
    """With what wraps its functions when an optimizer is made, and with Triton's interpreter."""
    if not importlib.import_module("torch").cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
    importlib.import_module("torch._dynamo")


def fingerprint() -> dict[str, int]:
    """What stands in the course's modules and in torch's outermost ones."""
    watched = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(("normcourse", "normlib"))
        or name in ("torch", "torch.testing", "torch.nn.functional", "math", "builtins")
    ]
    tables = {module.__name__: vars(module) for module in watched}
    tables["Tensor"] = dict(vars(sys.modules["torch"].Tensor))
    return {
        f"{name}.{key}": id(value)
        for name, table in tables.items()
        for key, value in table.items()
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType)
    }


def title_of(check) -> str:
    """Such as: 2 (layer norm)."""
    with contextlib.redirect_stdout(io.StringIO()):
        verdict = check(None)
    return verdict.partition(" Exercise ")[2].partition(": not attempted")[0]


def row(*values: str) -> dict:
    """A line of the table. A spreadsheet shall not take a stranger's words for a formula."""
    safe = (f"'{value}" if value.startswith(("=", "+", "-", "@")) else value for value in values)
    return dict(zip(COLUMNS, (" ".join(value.split()) for value in safe), strict=True))


@contextlib.contextmanager
def temporary_course() -> Iterator[Path]:
    """A copy of the lessons to work in, without solutions."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "notebooks"
        shutil.copytree(COURSE, copied, ignore=shutil.ignore_patterns("solutions", ".ipynb*"))
        os.chdir(copied)
        try:
            yield copied
        finally:
            os.chdir(before)


def notebooks_in(folder: Path) -> list[Path]:
    return [
        path for path in sorted(folder.rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts
    ]


def write(path: Path, rows: Iterable[dict]) -> Path | None:
    """Write the table; an earlier one is kept, and its new name is returned."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    kept = None
    if path.exists() and path.read_bytes() != text.getvalue().encode():
        kept = next(
            p for n in range(1, 1000) if not (p := path.with_suffix(f".old{n}.csv")).exists()
        )
        path.rename(kept)
    atomic.write(path, text.getvalue())
    return kept


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Grade a class's notebooks with fresh checks.")
    parser.add_argument("folder", help="notebooks, each named after its student")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for one exercise")
    options = parser.parse_args(arguments)
    folder = Path(options.folder).resolve()
    paths = notebooks_in(folder) if options.folder and folder.is_dir() else []
    if not paths:
        print(
            f"{options.folder or 'No folder'} holds no notebook: make grade FOLDER=the/folder",
            file=sys.stderr,
        )
        return 1
    print("This runs strangers' code on this machine: use a container (lectures/README.md).")
    if hasattr(os, "fork"):  # the children have torch already
        import_torch()
        multiprocessing.set_start_method("fork", force=True)
    lessons = [lesson_at(path) for path in sorted(COURSE.glob("[0-9][0-9]*_*.ipynb"))]
    rows = []
    with temporary_course():
        for path in paths:
            name = path.relative_to(folder).with_suffix("").as_posix()
            of_one = list(grade(path, name, lessons, options.seconds))
            rows += of_one
            counts = {mark: sum(line["solved"] == mark for line in of_one) for mark in MARKS}
            print(f"{name}: " + ", ".join(f"{n} {mark}" for mark, n in counts.items() if n))
    kept = write(folder / REPORT, rows)
    if kept:
        print(f"The table that was there is kept: {kept.name}.")
    look = sum(line["solved"] in (OPEN, UNCHECKED) for line in rows)
    print(f"{folder / REPORT}: {len(rows)} lines, {look} for a person to look at.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
