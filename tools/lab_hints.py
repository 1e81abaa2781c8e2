"""Each kernel of `make lab` runs this file, which gives hints to the reader.

After a restart a NameError says which cell to run first, an error that the lesson means to show is
one line, and a lesson that an update renewed says where the reader's answers are.
"""

import ast
import os
import sys
from pathlib import Path

KEPT = "An update renewed this lesson. What you wrote and does not stand in it is in {}."
MEANT = "raises-exception"
HINT = "A cell at the top defines `{}`. After a restart: Run → Run All Above Selected Cell."


def read(notebook: Path) -> list:
    """The code cells of a notebook; none where it cannot be read."""
    from normcourse.lesson import Notebook  # here: a plain Python of the lab may lack it

    try:
        return Notebook(notebook).code
    except (OSError, ValueError):
        return []


def defined_at_the_top(cells: list) -> set[str]:
    """The names that the first code cell of a notebook defines."""
    try:
        tree = ast.parse(cells[0].source) if cells else ast.Module([], [])
    except SyntaxError:
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def hint(missing: str, notebook: Path) -> str:
    """What to tell a reader whose cell lacks this name.

    It is empty where the first cell does not define the name.
    """
    return HINT.format(missing) if missing in defined_at_the_top(read(notebook)) else ""


def is_meant(source: str, notebook: Path) -> bool:
    """Whether this is a cell, unchanged, that the lesson says will raise."""
    tagged = [cell for cell in read(notebook) if MEANT in cell.tags]
    return source.strip() in [cell.source.strip() for cell in tagged]


def show(shell, kind, error, trace, tb_offset=None) -> None:
    """IPython's traceback, or one line where the lesson means the error; a hint below it."""
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))
    if is_meant(shell.user_ns["In"][-1], notebook):
        shell._showtraceback(kind, error, [f"{kind.__name__}: {error}"])
    else:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    line = hint(error.name or "", notebook) if isinstance(error, NameError) else ""
    if line:
        print(line)


def kept_copies(notebook: Path) -> list[str]:
    """The names under which tools/learner.py kept what the reader had written in this lesson."""
    return sorted(path.name for path in notebook.parent.glob(f"{notebook.stem}.old*.ipynb"))


def print_once(shell, line: str) -> None:
    """Below the output of the first cell that is run; before it nothing would be seen."""

    def show(_result) -> None:
        shell.events.unregister("post_run_cell", show)
        print(line)

    shell.events.register("post_run_cell", show)


def install() -> None:
    """Only in IPython: plain Python reads PYTHONSTARTUP as well."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    shell.set_custom_exc((Exception,), show)
    if kept := kept_copies(Path(os.environ.get("JPY_SESSION_NAME", ""))):
        print_once(shell, KEPT.format(", ".join(kept)))


if __name__ == "__main__":
    install()
