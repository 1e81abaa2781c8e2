"""`make web`: the course as pages for a browser, in build/web. No notebook is executed."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from editions.colab import CITATION
from editions.interactive import faults
from editions.prepare import prepare
from normcourse.lesson import Notebook
from tools.browser_libraries import fetch_libraries

ROOT = Path(__file__).resolve().parents[1]

NOTEBOOKS = ROOT / "notebooks"
WORK = ROOT / "build"
SITE = WORK / "web"
CELL_LINES = 10_000  # myst-nb counts the lines of cell n from n times this
LINES_ADDED = 3  # editions.prepare opens a Markdown cell with its name


def build(
    notebooks: Path = NOTEBOOKS,
    work: Path = WORK,
    own_decks: Path | None = None,
    citation: Path = CITATION,
) -> list[str]:
    """Build the pages in `work`/web; returns what Sphinx complains of, each with its cell."""
    source = work / "websrc"
    prepare(source, notebooks, own_decks)
    shutil.rmtree(work / "web", ignore_errors=True)  # or pictures of earlier builds would stay
    options = ["-D", f"course_notebooks={notebooks}", "-D", f"course_citation={citation}"]
    lines = sphinx(source, work / "web", work / "doctrees", *options)
    return [with_place(line, source) for line in lines]


def sphinx(source: Path, target: Path, doctrees: Path, *options: str) -> list[str]:
    """Run Sphinx, HTML unless `options` say other; returns the lines of its complaints."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "--no-color"]
    command += ["-c", str(ROOT / "editions"), "-d", str(doctrees), *options]
    # Sphinx stops where the language of LANG is not installed
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    run = subprocess.run(
        [*command, str(source), str(target)], env=environment, capture_output=True, text=True
    )
    if run.returncode == 0:
        return []
    return [line for line in run.stderr.splitlines() if line.strip()]


def with_place(line: str, source: Path) -> str:
    """`…/websrc/02_layer_norm.ipynb:70005: …` -> notebook, cell and line in it."""
    found = re.match(re.escape(f"{source}/") + r"(\S+?\.ipynb):(\d+)", line)
    if not found:
        return line.replace(f"{source}/", "")
    page, number = found[1], int(found[2])
    cell, row = divmod(number, CELL_LINES)
    cells = Notebook(source / page).cells
    where = f", cell {cells[cell - 1].id}, line {max(1, row - LINES_ADDED)}" if cell else ""
    return f"notebooks/{page}{where}{line[found.end() :]}"


def main() -> None:
    fetch_libraries()
    start = time.perf_counter()
    complaints = [*faults(NOTEBOOKS), *build()]
    if complaints:
        print("\n".join(complaints), file=sys.stderr)
        sys.exit(f"The pages were not built: {len(complaints)} lines of complaints above.")
    seconds = time.perf_counter() - start
    print(f"{len(list(SITE.rglob('*.html')))} pages in {seconds:.0f} s: open {SITE / 'index.html'}")


if __name__ == "__main__":
    main()
