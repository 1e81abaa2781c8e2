"""Pages and notebooks have what contents.yaml and cells.txt say: nothing is lost in silence."""

import difflib
import json
import re

import pytest

from tests.named_things import shown
from tests.planting import one_of_each_folder, plant
from tools import contents as tool

RENEW = "Put it back. If it is on purpose, run: make pages, and the loss is a line of your commit"
PAGES = tool.current()


def test_no_page_has_lost_anything():
    gone = tool.missing(tool.stored(), PAGES)
    assert not gone, f"{'; '.join(gone)}. {RENEW}"


def test_the_pages_that_people_edit_are_all_counted():
    names = {page.rpartition("/")[2] for page in PAGES}
    edited = {"sources.md", "notation.md", "course_map.md", "reported.md", "equations.md"}
    assert names >= edited | {"claims.md", "glossary.md", "README.md"}
    assert not any(name.startswith("derivation_") for name in names)


def changes(before, now):
    """What is another line, each with the notebook that it belongs to."""
    old, new = by_notebook(before), by_notebook(now)
    return [
        f"{place} {'has lost' if line[0] == '-' else 'now has'} {line[2:]!r}"
        for place in old | new  # each alone: in the whole file ndiff takes frequent lines for junk
        for line in difflib.ndiff(old.get(place, []), new.get(place, []))
        if line.startswith(("- ", "+ "))
    ]


def by_notebook(text):
    blocks = (block.splitlines() for block in text.strip().split("\n\n"))
    return {place: cells for place, *cells in blocks}


def test_no_notebook_has_lost_or_moved_a_cell_or_a_tag():
    found = changes(tool.CELLS.read_text("utf-8"), tool.cells())
    assert not found, f"{'; '.join(found)}. {RENEW}"


CELLS = """notebooks/01_a.ipynb
- title
- run hide-input
- run-read
"""


@pytest.mark.parametrize(
    ("there", "planted", "says"),
    [
        ("- run-read\n", "", "notebooks/01_a.ipynb has lost '- run-read'"),
        (" hide-input", "", "notebooks/01_a.ipynb now has '- run'"),
        ("- title\n", "- title hide-input\n", "notebooks/01_a.ipynb has lost '- title'"),
        (
            "- title\n- run hide-input",
            "- run hide-input\n- title",
            "notebooks/01_a.ipynb now has '- run hide-input'",
        ),
    ],
)
def test_a_cell_that_went_or_moved_is_named(there, planted, says):
    assert says in changes(CELLS, CELLS.replace(there, planted))
    assert changes(CELLS, CELLS) == []


NOTEBOOKS = [tool.ROOT / name for name in re.findall(r"^notebooks/.+$", tool.cells(), re.M)]


@pytest.mark.parametrize("path", one_of_each_folder(NOTEBOOKS), ids=shown)
def test_a_cell_that_went_is_seen_in_lessons_and_solutions(monkeypatch, path):
    def without_title(text):
        notebook = json.loads(text)
        return json.dumps(notebook | {"cells": notebook["cells"][1:]})

    plant(monkeypatch, [path], without_title)
    (found,) = changes(tool.CELLS.read_text("utf-8"), tool.cells())
    assert found == f"{shown(path)} has lost '- title'"


PAGE = """# A page

One paragraph
of two lines.

## Rows

| a | b |
| --- | --- |
| 1 | 2 |
- an item
  that goes on
1. another

```
# no heading
- no item
```
"""


def test_rows_items_and_paragraphs_are_counted():
    assert tool.parts(PAGE) == {"# A page": 1, "## Rows": 5}


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        (
            "One paragraph\nof two lines.\n",
            "toy.md, '# A page': 1 of 1 rows and paragraphs are gone",
        ),
        ("| 1 | 2 |\n", "toy.md, '## Rows': 1 of 5 rows and paragraphs are gone"),
        ("- an item\n  that goes on\n", "toy.md, '## Rows': 1 of 5 rows and paragraphs are gone"),
        ("## Rows\n", "toy.md has lost its heading '## Rows'"),
        (PAGE, "toy.md has lost its heading '# A page'"),
    ],
)
def test_what_is_lost_is_named(lost, says):
    before = {"toy.md": tool.parts(PAGE)}
    now = {"toy.md": tool.parts(PAGE.replace(lost, ""))}
    assert says in tool.missing(before, now)
    assert tool.missing(now, now) == []
    assert tool.missing(before, {}) == ["toy.md is gone"]


def test_71_lines_that_go_missing_are_seen():
    """As on sources.md, where a commit about something else cut them off."""
    for page, before in PAGES.items():
        lines = (tool.ROOT / page).read_text("utf-8").splitlines()
        cut = "\n".join(lines[: max(10, len(lines) - 71)])
        gone = tool.missing({page: before}, {page: tool.parts(cut)})
        assert gone or len(lines) <= 10, f"{page} may lose its last 71 lines unseen"
