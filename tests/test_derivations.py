"""The printable derivations are what tools/derivations.py makes of the lessons."""

import json

import derivations as tool
import pytest
import reference

RENEW = "run: .venv/bin/python tools/derivations.py"


def test_the_pages_are_what_the_tool_makes():
    stored = {path: path.read_text("utf-8") for path in reference.REFERENCE.glob("derivation_*.md")}
    current = tool.pages()
    differ = {
        path.name for path in stored.keys() | current if stored.get(path) != current.get(path)
    }
    assert not differ, f"{sorted(differ)} are not up to date: {RENEW}"


def test_no_page_has_a_tag_without_an_entry():
    for path, text in tool.pages().items():
        assert "equations.md#)" not in text, f"{path.name}: a tag is not in equations.md"


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

**[EQ-RMS](equations.md#eq-rms--root-mean-square-normalization)**
$$
r = 1
$$

**Every line**

See [A154](claims.md#A154) and [lesson 03](../03_rms_norm.ipynb)."""


def markdown(text, *tags):
    metadata = {"tags": list(tags)} if tags else {}
    return {"cell_type": "markdown", "metadata": metadata, "source": text}


@pytest.fixture
def written(tmp_path):
    def write(*cells):
        path = tmp_path / "04_toy.ipynb"
        path.write_text(json.dumps({"cells": cells}), "utf-8")
        return tool.page(path)

    return write


def test_a_page_shows_what_was_folded_and_links_the_tags(written):
    text = written(markdown("# 04 · A toy"), markdown(CELL, "derivation"))
    assert text.startswith("# Derivations of lesson 04 · A toy\n")
    assert text.endswith(PAGE + "\n")


def test_a_cell_without_a_heading_gets_the_last_one_above(written):
    text = written(markdown("# 04 · A toy\n\n## One\n\n### Two"), markdown("Lines.", "derivation"))
    assert text.endswith("### Two\n\nLines.\n")


def test_a_lesson_without_the_tag_has_no_page(written):
    assert written(markdown("# 04 · A toy"), markdown(CELL)) is None
