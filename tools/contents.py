"""Makes notebooks/reference/contents.yaml and cells.txt for `make pages`: what there is to lose.

For each heading of a reference page the first file has the number of table rows, list items and
paragraphs under it; for each notebook the second has its cells in their order, with their tags. A
test compares, so that what a commit takes from a page or a notebook is a line of its diff.
"""

import json
import re
from pathlib import Path

import yaml

from tools.reference import PROGRAM, REFERENCE, ROOT

DATA = REFERENCE / "contents.yaml"
CELLS = REFERENCE / "cells.txt"
LECTURES = ROOT / "lectures" / "README.md"
HEAD = """# What stands on the pages: table rows, list items and paragraphs under each heading.
# Made by `make pages`. A number that falls in a diff is something that a page has lost.
"""
CELLS_HEAD = """# The cells of each notebook in their order, with their tags.
# Made by `make pages`. A line that goes in a diff is a cell, or a tag, that is lost or moved.
"""
OF_ITS_OWN = re.compile(r"\||(?:[-*]|\d+\.) ")  # how a row of a table and an item of a list begin
LINE_BELOW_THE_HEAD = re.compile(r"[|: -]+")
Contents = dict[str, dict[str, int]]


def pages() -> list[Path]:
    """The pages that a person edits, or the data behind them."""
    made = set(REFERENCE.glob("derivation_*.md"))
    return [*sorted(set(REFERENCE.glob("*.md")) - made), LECTURES]


def parts(text: str) -> dict[str, int]:
    """{heading: rows, items and paragraphs under it}, of a Markdown page."""
    found: dict[str, int] = {}
    heading = ""
    inside = False  # of a paragraph, so that its next line is no part of its own
    for line in PROGRAM.sub("a program", text).splitlines():
        stripped = line.strip()
        if line.startswith("#"):
            heading = stripped
            found.setdefault(heading, 0)
        elif OF_ITS_OWN.match(stripped):
            found[heading] += not LINE_BELOW_THE_HEAD.fullmatch(stripped)
        elif stripped and not inside:
            found[heading] += 1
        inside = bool(stripped) and not line.startswith("#")
    return found


def current() -> Contents:
    return {path.relative_to(ROOT).as_posix(): parts(path.read_text("utf-8")) for path in pages()}


def stored() -> Contents:
    return yaml.safe_load(DATA.read_text("utf-8"))


def missing(before: Contents, now: Contents) -> list[str]:
    """What was there before and is not there now, one sentence each."""
    faults = []
    for page, headings in before.items():
        if page not in now:
            faults.append(f"{page} is gone")
            continue
        for heading, count in headings.items():
            left = now[page].get(heading)
            if left is None:
                faults.append(f"{page} has lost its heading {heading!r}")
            elif left < count:
                faults.append(
                    f"{page}, {heading!r}: {count - left} of {count} rows and paragraphs are gone"
                )
    return faults


def cells() -> str:
    """The file cells.txt as it should be."""
    lines = [CELLS_HEAD]
    folder = ROOT / "notebooks"
    for path in sorted([*folder.glob("*.ipynb"), *folder.glob("solutions/*.ipynb")]):
        lines.append(f"\n{path.relative_to(ROOT).as_posix()}\n")
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            lines.append(" ".join(["-", cell["id"], *cell["metadata"].get("tags", [])]) + "\n")
    return "".join(lines)


def made() -> dict[Path, str]:
    listed = yaml.safe_dump(current(), allow_unicode=True, sort_keys=False, width=1000)
    return {DATA: HEAD + listed, CELLS: cells()}
