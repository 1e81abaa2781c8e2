"""Write notebooks/reference/derivation_NN.md:
the derivations of each lesson, every line, no code, to be printed.

A lesson marks its Markdown cells that carry a derivation with the tag `derivation`. On the page
what is folded lies open, hints are left out, an equation's tag links to its entry, and a heading
says from which section of the lesson a cell comes.
"""

import json
import re
from pathlib import Path

import files
import reference

TAG = "derivation"
HEAD = """# Derivations of lesson {title}

Every line of what [the lesson](../{file}) derives, without its code: for paper.
Made from the lesson by `tools/derivations.py`: edit the lesson, not this page.
"""
HINT = re.compile(r"<details>\s*<summary>\s*Hint.*?</details>\n*", re.S)
SUMMARY = re.compile(r"<details>\s*<summary>\s*(?:<b>)?(.+?)(?:</b>)?\s*</summary>")
EQUATION = re.compile(r"\*\*\[(EQ-[A-Z0-9-]+)\]\*\*")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")
HEADING = re.compile(r"^##+ .+$", re.M)


def cells(lesson: Path) -> list[dict]:
    found = json.loads(lesson.read_text("utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "markdown"]


def is_derivation(cell: dict) -> bool:
    return TAG in cell["metadata"].get("tags", [])


def unfolded(text: str) -> str:
    """The text without hints, and with everything else that was folded in the open."""
    text = SUMMARY.sub(r"**\1**", HINT.sub("", text))
    return re.sub(r"</details>\n?", "", text)


def linked(text: str, anchors: dict[str, str]) -> str:
    """Equation tags as links; links of the lesson as seen from the folder reference."""
    text = EQUATION.sub(lambda m: f"**[{m[1]}](equations.md#{anchors.get(m[1], '')})**", text)
    return LINK.sub(lambda m: f"]({seen_from_reference(m[1])})", text)


def seen_from_reference(target: str) -> str:
    if target.startswith("equations.md#"):
        return target
    if target.startswith("reference/"):
        return target.removeprefix("reference/")
    return f"../{target}"


def page(lesson: Path) -> str | None:
    """The page of a lesson, or None if it marks no cell."""
    parts = []
    title = ""
    heading = None  # the last one above that is not on the page
    anchors = reference.equations()
    for cell in cells(lesson):
        text = "".join(cell["source"])
        title = title or text.splitlines()[0].removeprefix("# ")
        headings = HEADING.findall(text)
        if is_derivation(cell):
            if heading and not text.startswith("#"):
                parts.append(heading)
            parts.append(linked(unfolded(text), anchors).strip())
            heading = None
        elif headings:
            heading = headings[-1]
    if not parts:
        return None
    return "\n\n".join([HEAD.format(title=title, file=lesson.name).strip(), *parts]) + "\n"


def pages() -> dict[Path, str]:
    """Path of each page, and what stands on it."""
    made = {
        reference.REFERENCE / f"derivation_{number}.md": page(lesson)
        for number, lesson in reference.lessons().items()
    }
    return {path: text for path, text in made.items() if text}


def main() -> None:
    current = pages()
    for path in reference.REFERENCE.glob("derivation_*.md"):
        if path not in current:
            path.unlink()
    for path, text in current.items():
        files.write(path, text)


if __name__ == "__main__":
    main()
