"""Copies the notebooks, the reference pages and the decks to a folder that Sphinx can build.

Only the copy changes: tags become links, links out of the site lose their address, every cell gets
a name on the page. What is shown and what is folded is the extension's matter.
"""

import json
import os
import re
import shutil
from pathlib import Path

from editions import derivations, front, moved, order, terms
from editions.equations import chapters, equations, label
from editions.exercises import sheet, solution_sheet
from editions.interactive import places, told
from editions.order import ROOMS
from normcourse.lesson import TAG, Notebook

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
PAGES = Path(__file__).parent / "pages"
DECKS = ROOT / "lectures"
OWN_DECKS = "my/lectures"
FILES = "_files"  # what is copied to _static as it is

# A tag in words. In these a tag is no link: code, formulas, links, headings, lines of HTML.
NOT_WORDS = re.compile(
    r"```.*?```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`|\[[^\]\n]*\]\([^)\n]*\)|^(?:#+ |<).*?$|<[^>\n]*>",
    re.S | re.M,
)
TAG_IN_WORDS = re.compile(rf"(?<![\w-]){TAG}(?![\w-])")
STATED = re.compile(rf"^\*\*\[({TAG})\](?:\([^)\n]*\))?\*\*\n", re.M)
ENTRY = re.compile(rf"^##+ ({TAG}) — .+$", re.M)
TAGGED = re.compile(
    rf"equations\.md#({TAG})(?:--|$)", re.I
)  # a formula's heading, as GitHub names it
ORPHAN = "---\norphan: true\n"  # the head of such a page
CHAPTER = re.compile(r"\((equations_\w+)\.md\)")  # as the list of all formulas links it
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
NO_LETTER = re.compile(r"[^\w-]")
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s]+)\)")


def link_tags(markdown: str) -> str:
    """Each tag in words becomes a link: Sphinx knows whether there is such an equation."""

    def link(match):
        return f"[{match[0]}](#{label(match[0])})"

    parts = []
    end = 0
    for skipped in NOT_WORDS.finditer(markdown):
        words = markdown[end : skipped.start()]
        parts += [TAG_IN_WORDS.sub(link, words), skipped[0]]
        end = skipped.end()
    parts.append(TAG_IN_WORDS.sub(link, markdown[end:]))
    return "".join(parts)


def link_stated(markdown: str) -> str:
    """`**[EQ-LN]**` above a formula becomes a link; the formula a paragraph of its own."""
    return STATED.sub(lambda match: f"{{.stated}}\n[{match[1]}](#{label(match[1])})\n\n", markdown)


def mend_links(markdown: str, page: Path, root: Path) -> str:
    """Links as the site needs them.

    A row of a table, such as reference/claims.md#A154, is a target of the whole site. A heading of
    a notebook is written as JupyterLab names it, `#One-bracket`; on the web it has small letters
    and no signs. A file of the repository that is no page has no address on the web: its name is
    left as text.
    """

    def mend(match):
        words, address = match[1], match[2]
        path, _, anchor = address.partition("#")
        goal = Path(os.path.normpath(page.parent / path))
        if tagged := TAGGED.search(address):
            return f"[{words}](#{label(tagged[1])})"
        if path.endswith(".md") and anchor in rows_of(goal):
            return f"[{words}](#{anchor.lower()})"
        if path.endswith(".ipynb") and anchor:
            return f"[{words}]({path}#{NO_LETTER.sub('', anchor.lower())})"
        if "://" not in address and goal.is_file() and not goal.is_relative_to(root):
            return words
        return match[0]

    return LINK.sub(mend, markdown)


def rows_of(page: Path) -> list[str]:
    """The anchors that stand in the rows of a reference page's tables."""
    return ANCHOR.findall(page.read_text("utf-8")) if page.is_file() else []


def prepared_markdown(markdown: str, page: Path, root: Path) -> str:
    return link_tags(link_stated(mend_links(markdown, page, root)))


def markdown_cell(name: str, words: str) -> dict:
    """A cell that says its name in front."""
    source = f"```{{cell-start}} {name}\n```\n\n{words}"
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def interactive_cell(place: dict) -> dict:
    head = f"````{{interactive}} {place['figure']}"
    options = [f":{key}: {value}" for key, value in told(place).items()]
    words = "\n".join([head, *options, "", place["words"], "````"])
    return markdown_cell(f"interactive-{place['figure']}", words)


def side_lessons_cell(pages: list[str]) -> dict:
    words = "**Side lessons of this one**, which nobody needs for the next:"
    source = f"{words}\n\n{order.toctree(pages, ':maxdepth: 1')}"
    return {"cell_type": "markdown", "id": "side-lessons", "metadata": {}, "source": source}


def prepared_notebook(
    path: Path, root: Path, figures: list[dict], found: list[str], sides: list[str]
) -> str:
    """The notebook as the site needs it.

    Each cell has its name; interactive figures stand in their places, what the search finds here
    in the first cell, links to the side lessons at the end, before the section Evidence. That
    section is one fold on the web (extension/cells.py), so the folds in it are opened here.
    """
    notebook = Notebook(path)
    after = {place["after"]: place for place in figures}
    cells: list[dict] = []
    for cell in notebook.cells:
        if sides and cell in notebook.evidence[:1]:
            cells.append(side_lessons_cell(sides))
        if cell.cell_type == "markdown":
            folded = cell in notebook.evidence
            words = derivations.unfolded(cell.source) if folded else cell.source
            words = prepared_markdown(words, path, root)
            if not cells and found:
                words += f"\n\n{terms.entries(found)}"
            cells.append(markdown_cell(cell.id, words))
        else:
            cells.append(cell.stored | {"metadata": cell.metadata | {"cell_id": cell.id}})
        if cell.id in after:
            cells.append(interactive_cell(after[cell.id]))
    if sides and not notebook.evidence:
        cells.append(side_lessons_cell(sides))
    return json.dumps(notebook.stored | {"cells": cells}, ensure_ascii=False)


def prepared_reference(markdown: str, page: Path, root: Path) -> str:
    markdown = link_stated(mend_links(markdown, page, root))
    markdown = ANCHOR.sub(r"[]{#\1}", markdown)
    markdown = ENTRY.sub(
        lambda match: f"({label(match[1])})=\n{match[0]}\n\n{terms.entries([match[1]])}", markdown
    )
    return link_tags(markdown)


def reference_pages(notebooks: Path) -> dict[Path, str]:
    """The pages of the folder reference, the chapters of the formulas, and all derivations."""
    stored = {path: path.read_text("utf-8") for path in sorted(notebooks.glob("reference/*.md"))}
    formulas = notebooks / "reference" / "equations.md"
    for name, markdown in chapters(stored[formulas]).items():
        stored[formulas.with_stem(name)] = markdown
    return stored | derivations.pages(notebooks)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def library_page(room: str) -> str:
    """The public names of a room, as autodoc writes them of their docstrings."""
    title = [f"# {room}", "", f"`from normlib import {room}`", ""]
    directive = ["```{eval-rst}", f".. automodule:: normlib.{room}", "   :members:", "```", ""]
    return "\n".join([*title, *directive])


def copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def copy_beside(folder: Path, target: Path) -> None:
    """The pictures of one's own decks, and what else lies there; the decks are left out."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and path.suffix != ".md" and not inside.parts[0].startswith("."):
            copy(path, target / inside)


def prepare_moved(target: Path, notebooks: Path) -> None:
    """A page at each old address, which leads to where the lesson's subject is now."""
    for old in moved.MOVED:
        if new := moved.goals(old, notebooks):
            write(target / f"{old}.md", moved.page(old, new))
            write(target / "solutions" / f"{old}.md", moved.page(old, new))


def prepare_sheets(target: Path, notebooks: Path) -> None:
    """The exercises of each lesson on paper, and their solutions."""
    known = equations(notebooks / "reference" / "equations.md")
    for path in sorted(notebooks.glob("*.ipynb")):
        lesson = Notebook(path)
        solved = Notebook(notebooks / "solutions" / path.name)
        sheets = {"": sheet(lesson, known), "_solutions": solution_sheet(lesson, solved)}
        for ending, text in sheets.items():
            write(target / f"{lesson.name}{ending}.md", link_tags(link_stated(text)))


def pages_in(target: Path, pattern: str) -> list[str]:
    """The names of prepared pages, without their endings; orphans stand in no list."""
    paths = [path for path in target.glob(pattern) if path.suffix in (".md", ".ipynb")]
    paths = [path for path in paths if not path.read_text("utf-8").startswith(ORPHAN)]
    return sorted(str(path.relative_to(target).with_suffix("")) for path in paths)


def prepare_lists(target: Path) -> None:
    """The pages that list others, as far as there are others."""
    for name, (pattern, *_) in order.LISTS.items():
        if pages := pages_in(target, pattern):
            write(target / f"{name}.md", order.list_page(name, pages))
    page = target / "reference" / "equations.md"
    listed = page.read_text("utf-8")
    chapters = CHAPTER.findall(listed)
    write(page, f"{listed}\n{order.toctree(chapters, ':hidden:')}")


def prepare(target: Path, notebooks: Path = NOTEBOOKS, own_decks: Path | None = None) -> None:
    """Fill the folder anew with what is in the folder of notebooks, and with one's own decks."""
    shutil.rmtree(target, ignore_errors=True)
    interactive = places()
    lessons = [Notebook(path) for path in sorted(notebooks.glob("*.ipynb"))]
    names = [lesson.name for lesson in lessons]
    found = terms.treated(lessons)
    for path in sorted([*notebooks.glob("*.ipynb"), *notebooks.glob("solutions/*.ipynb")]):
        inside = path.relative_to(notebooks)
        page = str(inside.with_suffix(""))
        figures = interactive.get(page, [])
        sides = order.side_lessons(page, names) if page in order.main_road(names) else []
        text = prepared_notebook(path, notebooks, figures, found.get(page, []), sides)
        write(target / inside, text)
        copy(path, target / FILES / "notebooks" / inside)
    prepare_moved(target, notebooks)
    for path, markdown in reference_pages(notebooks).items():
        text = prepared_reference(markdown, path, notebooks)
        write(target / path.relative_to(notebooks), text)
    for pattern in ("reference/*.png", "reference/*.svg", "records/*.json"):
        for path in sorted(notebooks.glob(pattern)):
            copy(path, target / path.relative_to(notebooks))
    for path in sorted(PAGES.glob("*.md")):
        write(target / path.name, prepared_markdown(path.read_text("utf-8"), path, PAGES))
    for path in sorted(DECKS.glob("[0-9]*.md")):
        copy(path, target / "lectures" / path.name)
    if own_decks and own_decks.is_dir():
        for path in sorted(own_decks.glob("*.md")):
            copy(path, target / OWN_DECKS / path.name)
        copy_beside(own_decks, target / OWN_DECKS)
    for room in ROOMS:
        write(target / "library" / f"{room}.md", library_page(room))
    prepare_sheets(target / "exercises", notebooks)
    prepare_lists(target)
    there = pages_in(target, "**/*")
    words = front.front_page(
        (PAGES / "index.md").read_text("utf-8"), front.README.read_text("utf-8"), notebooks
    )
    write(target / "index.md", link_tags(words) + order.sidebar(names, there))
