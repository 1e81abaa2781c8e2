"""The section Evidence is one fold on the web, and collapsed in Jupyter. No browser runs."""

import json

from docutils import nodes
from docutils.utils import new_document
from nbformat.v4 import new_markdown_cell

from editions import prepare
from editions.extension import cells
from normcourse.lesson import COLLAPSED
from tools import notebooks

FOLDED = "<details><summary><b>Claims</b></summary>\n\nWords.\n\n### Sources\n\n</details>"


def markdown(name, source):
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def test_its_own_folds_lie_open_on_the_web_and_the_side_lessons_before_it(tmp_path):
    path = tmp_path / "03_toy.ipynb"
    stored = [
        markdown("remember", f"## What to remember\n\n{FOLDED}"),
        markdown("evidence", "## Evidence"),
        markdown("sure", FOLDED),
    ]
    path.write_text(json.dumps({"cells": stored, "metadata": {}, "nbformat": 4}), "utf-8")
    made = json.loads(prepare.prepared_notebook(path, tmp_path, [], [], ["03a_toy"]))["cells"]
    assert [cell["id"] for cell in made] == ["remember", "side-lessons", "evidence", "sure"]
    assert "<details>" in made[0]["source"]
    assert "<details>" not in made[3]["source"]
    assert "**Claims**\n\nWords.\n\n### Sources" in made[3]["source"]


def test_all_below_its_heading_is_one_fold():
    page = new_document("page")
    section, other = nodes.section(), nodes.section()
    for each, title in ((section, "Evidence"), (other, "Evident")):
        inside = nodes.section("", nodes.title("", "Sources"))
        each += [nodes.title("", title), nodes.paragraph(), inside]
        page += each
    cells.fold_evidence(page)
    assert [type(child) for child in section] == [nodes.title, cells.fold]
    assert [type(child) for child in section[1]] == [nodes.paragraph, nodes.section]
    assert not list(other.findall(cells.fold))


def test_the_tool_collapses_its_heading_and_no_other():
    for source, kept in (("## Evidence", {COLLAPSED: True}), ("## Evidence of this", {})):
        cell = new_markdown_cell(source, metadata={"scrolled": True, COLLAPSED: True})
        notebooks.tidy(cell)
        assert cell.metadata == kept
