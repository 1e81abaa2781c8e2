"""interactive.yaml: which figure stands after which cell of which notebook.

The formulas of the figures are in static/interactive/norms.js; tests/editions/test_interactive.py
compares each with normlib, on ordinary and on extreme rows.
"""

from pathlib import Path

import yaml

from normcourse.lesson import Notebook, UnknownName

LIST = Path(__file__).with_name("interactive.yaml")
TOLD = ("layers", "row", "sizes")


def places() -> dict[str, list[dict]]:
    """Notebook, as `02_layer_norm` -> its figures."""
    return yaml.safe_load(LIST.read_text("utf-8"))


def told(place: dict) -> dict[str, str]:
    """What its entry of the list tells a figure, on a page as on a slide."""
    found = {}
    for key in TOLD:
        if key in place:
            found[key] = ",".join(map(str, place[key]))
    return found


def faults(notebooks: Path) -> list[str]:
    """Every notebook and every cell on the list that does not exist."""
    found = []
    for name, figures in places().items():
        path = notebooks / f"{name}.ipynb"
        if not path.is_file():
            found.append(f"{LIST.name}: there is no notebook {name}")
            continue
        notebook = Notebook(path)
        for figure in figures:
            try:
                notebook.cell(figure["after"])
            except UnknownName as fault:
                found.append(f"{LIST.name}: {fault}")
    return found
