"""Strict runs of notebooks that are written for a test, and what is said of each of their cells."""

import xml.etree.ElementTree as ET
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.notebooks import nbstrict

ROOT = Path(__file__).resolve().parents[2]


def arguments(folder: Path, report: Path, *notebooks: Path) -> list[str]:
    """pytest's, for notebooks below `folder`."""
    settings = ["-c", ROOT / "pyproject.toml", f"--rootdir={folder.parent}"]
    return list(map(str, ["-q", *settings, f"--junitxml={report}", *notebooks]))


def said_of(report: Path) -> dict[str, dict[str, str]]:
    """What was said of each cell of each notebook; "" where it is green."""
    found = {}
    for case in ET.parse(report).iter("testcase"):
        cells = found.setdefault(case.get("classname").split(".")[1], {})
        cells[case.get("name")] = "".join(text for child in case for text in child.itertext())
    return found


def printed(words: str):
    return new_output("stream", text=words + "\n")


def stored(source: str, outputs: list, **changes):
    """A cell as if it had been executed."""
    return new_code_cell(source, outputs=outputs, **({"execution_count": 1} | changes))


def said_here(folder: Path, cells: dict, *options: str, plugins=()) -> dict[str, str]:
    """What a strict run in this very process says of each cell, given by its id."""
    path, report = folder / "small.ipynb", folder / "report.xml"
    for name, cell in cells.items():
        cell.id = name
    nbformat.write(new_notebook(cells=list(cells.values())), path)
    pytest.main([*arguments(folder, report, path), *options], plugins=[nbstrict, *plugins])
    return said_of(report)["small"]
