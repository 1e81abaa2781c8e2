"""`make web`: the course as pages for a browser, in build/web. No notebook is executed."""

import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from browser_libraries import fetch_libraries  # noqa: E402

from editions.interactive import faults  # noqa: E402
from editions.notebook import Notebook  # noqa: E402
from editions.prepare import prepare  # noqa: E402

SOURCE = ROOT / "build" / "websrc"
SITE = ROOT / "build" / "web"
CELL_LINES = 10_000  # myst-nb counts the lines of cell n from n times this
LINES_ADDED = 3  # editions.prepare opens a Markdown cell with its name
PLACE = re.compile(re.escape(str(SOURCE)) + r"/(\S+?\.ipynb):(\d+)")


def build() -> list[str]:
    """Build the pages; returns what Sphinx complains of, each with its cell."""
    prepare(SOURCE)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E"]
    command += ["-c", str(ROOT / "editions"), "-d", str(ROOT / "build" / "doctrees")]
    command += ["-b", "html", str(SOURCE), str(SITE)]
    run = subprocess.run(command, capture_output=True, text=True)
    complaints = faults(ROOT / "notebooks")
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if line.strip()]
        complaints += [PLACE.sub(place, line).replace(f"{SOURCE}/", "") for line in lines]
    return complaints


def place(match: re.Match) -> str:
    """`…/02_layer_norm.ipynb:70005` -> notebook, cell and line in it."""
    page, number = match[1], int(match[2])
    cell, line = divmod(number, CELL_LINES)
    names = list(Notebook(SOURCE / page).cells)
    if not 0 < cell <= len(names):
        return f"notebooks/{page}"
    return f"notebooks/{page}, cell {names[cell - 1]}, line {max(1, line - LINES_ADDED)}"


def main() -> None:
    fetch_libraries()
    start = time.perf_counter()
    complaints = build()
    if complaints:
        print("\n".join(complaints), file=sys.stderr)
        sys.exit(f"The pages were not built: {len(complaints)} lines of complaints above.")
    seconds = time.perf_counter() - start
    print(f"{len(list(SITE.rglob('*.html')))} pages in {seconds:.0f} s: open {SITE / 'index.html'}")


if __name__ == "__main__":
    main()
