"""Each kernel of `make lab` runs this file, which gives hints to the reader.

After a restart a NameError says which cell to run first, and a lesson that an update renewed says
where the reader's answers are.
"""

import ast
import json
import os
import sys
from pathlib import Path

KEPT = "An update renewed this lesson. What you wrote and does not stand in it is in {}."
HINT = "A cell at the top defines `{}`. After a restart: Run → Run All Above Selected Cell."


def defined_at_the_top(notebook: dict) -> set[str]:
    """The names that the first code cell of a notebook defines."""
    first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    source = first["source"]
    tree = ast.parse(source if isinstance(source, str) else "".join(source))
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
    try:
        names = defined_at_the_top(json.loads(notebook.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, StopIteration, SyntaxError):
        return ""
    return HINT.format(missing) if missing in names else ""


def show_with_hint(shell, kind, error, trace, tb_offset=None) -> None:
    """IPython's traceback as ever, and the hint below it."""
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    line = hint(error.name or "", Path(os.environ.get("JPY_SESSION_NAME", "")))
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
    shell.set_custom_exc((NameError,), show_with_hint)
    if kept := kept_copies(Path(os.environ.get("JPY_SESSION_NAME", ""))):
        print_once(shell, KEPT.format(", ".join(kept)))


if __name__ == "__main__":
    install()
