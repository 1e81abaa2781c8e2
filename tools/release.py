"""`make release FOLDER=…`: what students download from the course's page.

The lessons come without outputs and solutions; with them come the library, the checks, the figures
to move, and what `make lab`, `make ready`, `make bench` and `make experiments` need. A README tells
students what to do.
"""

import ast
import re
import shutil
import sys
from pathlib import Path

from normcourse.lesson import Notebook
from tools import figures_apart, learner, withheld

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("lab", "ready", "bench", "experiments", "environment")
STARTED = [f"tools.{name}" for name in ("lab", "lab_hints", "ready", "bench", "experiments")]
STARTED += ["tools.environment"]
FILES = ["LICENSE", "LICENSE-TEXT.md", "constraints.txt", "environment.yml", "pyproject.toml"]
FOLDERS = ["normlib", "normcourse", "tools/lab_settings"]
SKIPPED = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
LEFT_OUT = {".ipynb_checkpoints", "own"}  # of notebooks/: the maker's own files
README = """\
# {title}

You need Python 3.11 or newer, `make`, a network once, and about 2 GB of disk. On Linux the usual
torch brings several gigabytes for NVIDIA's GPUs; without one, choose CPU on torch's page of
installation, and hand over the option that it shows: `make ready TORCH_ARGS="--index-url …"`.

A week before the first class, in this folder:

    make ready

It installs what the lessons need into this folder (some minutes, once), runs a lesson and opens
JupyterLab. Its last line says "This computer is ready", or what is missing and the command that
mends it. Windows: Git Bash with make; or `python -m tools.environment`, then
`.venv\\Scripts\\python -m tools.ready`. Do not move or copy the folder afterwards: then the same
command has to install all of it again, with a network. `make ready LESSON=06` tries lesson 06.

In class, and at home:

    make lab

opens your own copy of the lessons, in the folder my/. What you write there is never overwritten.
Each exercise has a check, which says `[ok]` or names the mistake. The solutions are handed out
later.

The figures of the lectures that one moves: open a file of the folder figures/ in a browser.

Code: MIT (LICENSE). Text and figures: CC BY 4.0 (LICENSE-TEXT.md).
"""


def modules(started: list[str]) -> set[Path]:
    """The files of these modules and of all that they import, of this repository's scripts."""
    found: set[Path] = set()
    waiting = list(started)
    while waiting:
        path = ROOT / f"{waiting.pop().replace('.', '/')}.py"
        if path in found or not path.is_file():
            continue
        found.add(path)
        waiting += imported(ast.parse(path.read_text("utf-8")))
    return found | {path.parent / "__init__.py" for path in found}


def imported(tree: ast.AST) -> list[str]:
    """`from tools import files` may name a module or what is in one: both are tried."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.partition(".")[0] in ("tools", "editions")]


def makefile(text: str) -> str:
    """The Makefile with these targets alone: a block is what stands between empty lines."""
    blocks = re.sub(r"^\.PHONY:.*", f".PHONY: {' '.join(TARGETS)}", text, flags=re.M).split("\n\n")
    kept = []
    for block in blocks:
        target = re.search(r"^([a-z][a-z-]*):", block, re.M)
        if target is None or target[1] in TARGETS:
            kept.append(block)
    return "\n\n".join(kept).rstrip("\n") + "\n"


def lessons(target: Path) -> int:
    """The notebooks and what they read; returns how many lessons there are."""
    count = 0
    for path in sorted((ROOT / "notebooks").rglob("*")):
        inside = path.relative_to(ROOT / "notebooks")
        taken = path.is_file() and not LEFT_OUT & set(inside.parts)
        if not taken or inside.as_posix().startswith(withheld.FOLDER):
            continue
        goal = target / "notebooks" / inside
        goal.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            goal.write_bytes(given_out(path))
            count += 1
        else:
            shutil.copy(path, goal)
    return count


def given_out(path: Path) -> bytes:
    """The lesson as `make lab` takes it for the student's copy, and folds the answers there."""
    notebook = Notebook(path)
    return notebook.with_cells(map(withheld.withhold, map(learner.without_outputs, notebook.cells)))


def release(target: Path) -> int:
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(ROOT / name, target / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=SKIPPED)
    for path in modules(STARTED):
        goal = target / path.relative_to(ROOT)
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, goal)
    title = re.findall(r"^# (.+)$", (ROOT / "README.md").read_text("utf-8"), re.M)[0]
    (target / "README.md").write_text(README.format(title=title), "utf-8")
    made = makefile((ROOT / "Makefile").read_text("utf-8"))
    (target / "Makefile").write_text(made, "utf-8")
    figures_apart.write(target / "figures")
    return lessons(target)


def new_folder(arguments: list[str], command: str) -> Path:
    """The one folder that was named, if it can be filled."""
    if len(arguments) != 1 or not arguments[0]:
        sys.exit(f"Where to? {command}")
    target = Path(arguments[0]).expanduser().resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        sys.exit(f"{target} is there already, and stays as it is: name a new folder.")
    if target.is_relative_to(ROOT):
        sys.exit(f"{target} lies in the course itself: name a folder outside of {ROOT}.")
    return target


def main(arguments: list[str]) -> None:
    target = new_folder(arguments, "make release FOLDER=/a/new/folder")
    count = release(target)
    print(f"{target}: {count} lessons without outputs and solutions. Its README is for students.")


if __name__ == "__main__":
    main(sys.argv[1:])
