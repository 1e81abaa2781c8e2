"""The derivations of a lesson as a page for print: every line, no code.

A lesson marks its Markdown cells that carry a derivation with the tag `derivation`. On the page
what is folded lies open, hints are left out, and a heading says from which section of the lesson a
cell comes.
"""

import re
from pathlib import Path

from normcourse.lesson import FOLD, Notebook

CELL_TAG = "derivation"
HEAD = """# Derivations of lesson {title}

Every line of what [the lesson](../{file}) derives, without its code: for paper.
Made from the lesson: edit it, not this page.
"""
HINT = "Hint"
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")
HEADING = re.compile(r"^##+ .+$", re.M)


def pages(notebooks: Path) -> dict[Path, str]:
    """The page of each lesson that marks a cell, and its place: reference/derivation_NN.md."""
    found = {}
    for path in sorted(notebooks.glob("[0-9][0-9]*_*.ipynb")):
        number = path.name.partition("_")[0]
        found[notebooks / "reference" / f"derivation_{number}.md"] = page(Notebook(path))
    return {path: text for path, text in found.items() if text}


def page(lesson: Notebook) -> str | None:
    """The page as Markdown, or None if the lesson marks no cell."""
    parts = []
    heading = None  # the last one above that is not on the page
    for cell in lesson.markdown:
        text = cell.source
        headings = HEADING.findall(text)
        if CELL_TAG in cell.tags:
            if heading and not text.startswith("#"):
                parts.append(heading)
            parts.append(seen_from_reference(unfolded(text)).strip())
            heading = None
        elif headings:
            heading = headings[-1]
    if not parts:
        return None
    head = HEAD.format(title=lesson.title, file=lesson.path.name).strip()
    return "\n\n".join([head, *parts]) + "\n"


def unfolded(text: str) -> str:
    """The text without hints, and with everything else that was folded in the open."""

    def opened(fold):
        if fold["summary"].startswith(HINT):
            return ""
        return f"**{fold['summary']}**{fold['inside']}"

    return re.sub(r"\n{3,}", "\n\n", FOLD.sub(opened, text))


def seen_from_reference(text: str) -> str:
    """The lesson's links as they are from the folder reference."""

    def moved(match):
        target = match[1]
        inside = target.removeprefix("reference/")
        return f"]({inside})" if inside != target else f"](../{target})"

    return LINK.sub(moved, text)
