"""The derivations of a lesson on a page for print; those that a lesson links to are stored."""

import json
import re

import pytest

from editions import prepare
from editions.derivations import page
from normcourse.lesson import Notebook
from tools import derivations as tool
from tools import reference


def test_the_web_edition_has_a_page_of_every_lesson_that_derives_something():
    on_the_web = {path.name for path in prepare.reference_pages(prepare.NOTEBOOKS)}
    derive = {
        f"derivation_{number}.md"
        for number, path in reference.lessons().items()
        if re.search(r'"tags": \[\s*"derivation"', path.read_text("utf-8"))
    }
    assert len(derive) > len(tool.made()) > 0
    assert derive <= on_the_web


def test_in_the_folder_a_tag_leads_to_its_equation():
    link = "**[EQ-RMS](equations.md#eq-rms--root-mean-square-normalization)**"
    assert tool.with_links("**[EQ-RMS]**\n$$") == f"{link}\n$$"


CELL = """## The norm

**[EQ-RMS]**
$$
r = 1
$$

<details><summary>Hint</summary>

Do not show me.

</details>

<details><summary><b>Every line</b></summary>

See [A154](reference/claims.md#A154) and [lesson 03](03_rms_norm.ipynb).

</details>"""
PAGE = """## The norm

**[EQ-RMS]**
$$
r = 1
$$

**Every line**

See [A154](claims.md#A154) and [lesson 03](../03_rms_norm.ipynb)."""


def markdown(text, *tags):
    metadata = {"tags": list(tags)} if tags else {}
    name = str(hash(text))
    return {"cell_type": "markdown", "id": name, "metadata": metadata, "source": text}


@pytest.fixture
def written(tmp_path):
    def write(*cells):
        path = tmp_path / "04_toy.ipynb"
        path.write_text(json.dumps({"cells": cells}), "utf-8")
        return page(Notebook(path))

    return write


def test_a_page_shows_what_was_folded(written):
    text = written(markdown("# 04 · A toy"), markdown(CELL, "derivation"))
    assert text.startswith("# Derivations of lesson 04 · A toy\n")
    assert text.endswith(PAGE + "\n")


def test_a_cell_without_a_heading_gets_the_last_one_above(written):
    text = written(markdown("# 04 · A toy\n\n## One\n\n### Two"), markdown("Lines.", "derivation"))
    assert text.endswith("### Two\n\nLines.\n")


def test_a_lesson_without_the_tag_has_no_page(written):
    assert written(markdown("# 04 · A toy"), markdown(CELL)) is None
