"""Makes notebooks/reference/glossary.md of glossary.yaml, for `make pages`.

The lesson of a term's first use is looked up.
"""

import re
from pathlib import Path

from editions.terms import pattern, terms
from normcourse.lesson import Notebook
from tools.reference import REFERENCE
from tools.reference import lessons as lesson_files
from tools.reference import row as table_row

PAGE = REFERENCE / "glossary.md"
HEAD = """# Glossary, English and Chinese

The terms of the five articles ([sources.md](sources.md)) and of this course. "First in" is the
lesson that uses the term first, or the form of it in brackets. A warning says where the articles
use a word in a sense that misleads.
Made from `glossary.yaml` by `make pages`: edit the data, not this page.

| English | Chinese | first in | note |
| --- | --- | --- | --- |
"""


def lessons() -> dict[str, str]:
    """Number of each lesson, in the order of reading, and all its text and code."""
    found = {}
    for number, path in lesson_files().items():
        text = "\n".join(cell.source for cell in Notebook(path).cells)
        # a term may be set in bold or broken
        found[number] = re.sub(r"[*`\s]+", " ", text)
    return found


def first_lesson(term: dict, texts: dict[str, str]) -> str | None:
    """The first lesson whose text has the term."""
    found = pattern(term)
    return next((number for number, text in texts.items() if found.search(text)), None)


def row(term: dict, texts: dict[str, str]) -> str:
    english = f"{term['en']} [{term['seen']}]" if "seen" in term else term["en"]
    note = term.get("note", "")
    note = (
        f"**Warning:** {term['warning']}" + (f" {note}" if note else "")
        if "warning" in term
        else note
    )
    return table_row([english, term["zh"], first_lesson(term, texts) or "nowhere", note])


def page() -> str:
    texts = lessons()
    ordered = sorted(terms(), key=lambda term: term["en"].lower())
    return HEAD + "".join(row(term, texts) for term in ordered)


def made() -> dict[Path, str]:
    return {PAGE: page()}
