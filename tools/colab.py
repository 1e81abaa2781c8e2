"""`python -m tools.colab FOLDER`: what the branch `colab` holds, whose lessons Colab opens.

It is what `make release` gives to students. Each lesson begins with a cell that installs the
course, and its links have whole addresses, because Colab shows one notebook alone.
"""

import re
import sys
import tomllib
from pathlib import Path

from editions import colab
from normcourse.lesson import Cell, Notebook
from tools import environment, learner, release

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([\w./-]+)(#[^)\s]*)?\)")
NOT_NAME = re.compile(r"[^\w-]")
PINNED = re.compile(r"^torch==(\S+)", re.M)
BROUGHT = {"ipykernel", "ipython", "jupyterlab"}  # Colab is one itself
INSTALL = """\
# Colab's machine is empty at first: this cell fetches the course and installs it.
# Colab's torch stays if it is {torch} or newer; an older one is replaced, which takes minutes.
# The numbers in the text are those of torch {pinned}: another torch may differ in last digits.
!test -d ~/normlib || git clone --quiet --depth 1 --branch {branch} {source} ~/normlib
%pip install --quiet ~/normlib {packages}
!python -c "{signals}"
%cd ~/normlib/notebooks"""


def install_cell(source: str) -> Cell:
    """Its packages are those of the lab's that Colab may lack; pip leaves what is there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [NOT_NAME.split(line)[0] for line in project["optional-dependencies"]["lab"]]
    (torch,) = (line for line in project["dependencies"] if line.startswith("torch"))
    (pinned,) = PINNED.findall((ROOT / "constraints.txt").read_text("utf-8"))
    text = INSTALL.format(
        torch=torch.partition(">=")[2],
        pinned=pinned,
        branch=colab.BRANCH,
        source=source,
        signals=environment.SIGNALS,
        packages=" ".join(name for name in names if name not in BROUGHT),
    )
    cell = {"cell_type": "code", "id": "install", "metadata": {}, "source": text}
    return Cell(cell | {"outputs": [], "execution_count": None})


def whole_links(markdown: str, repository: str) -> str:
    def whole(match):
        address, anchor = match[1], match[2] or ""
        if address.endswith(".ipynb"):
            return f"]({colab.lesson(repository, address.removesuffix('.ipynb'))})"
        return f"](https://github.com/{repository}/blob/HEAD/notebooks/{address}{anchor})"

    return LINK.sub(whole, markdown)


def prepare(path: Path, repository: str, source: str) -> None:
    """A lesson of the students' copy becomes the one that Colab opens."""
    notebook = Notebook(path, learner.learners_form(path, solutions=False))
    cells = [install_cell(source)]
    for cell in notebook.cells:
        is_text = cell.cell_type == "markdown"
        cells.append(cell.changed(source=whole_links(cell.source, repository)) if is_text else cell)
    path.write_bytes(notebook.with_cells(cells))


def write(target: Path, repository: str, source: str = "") -> int:
    """Fill the folder; `source` is what git clones, the repository's address unless it is given."""
    release.release(target)
    lessons = sorted((target / "notebooks").glob("*.ipynb"))
    for path in lessons:
        prepare(path, repository, source or f"https://github.com/{repository}")
    return len(lessons)


def main(arguments: list[str]) -> None:
    repository = colab.repository()
    if not repository:
        sys.exit("CITATION.cff names no repository on GitHub: fill its line repository-code.")
    target = release.new_folder(arguments, "python -m tools.colab /a/new/folder")
    count = write(target, repository)
    print(f"{target}: {count} lessons for the branch {colab.BRANCH} of {repository}.")


if __name__ == "__main__":
    main(sys.argv[1:])
