"""A lesson's exercises for print: a sheet to write on, and one with the solutions.

On the sheet stands what a task speaks of: the formula of each tag in it, and each function of the
lesson that it names. What no rule finds (a table, a symbol's meaning, a picture) is in sheets.yaml,
by the names of the lesson's cells.
"""

import ast
import base64
import html
import re
from pathlib import Path

import yaml

from editions.equations import Equation
from normcourse.lesson import TAG, Cell, Exercise, Notebook, Picture, UnknownName

LIST = Path(__file__).with_name("sheets.yaml")
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
CODE = re.compile(r"`([^`\n]+)`")
OPEN = re.compile(r"^.*raise NotImplementedError$\n?", re.M)
BLANK = re.compile(r"(?<=[=:] )None\b")
ON_PAPER = "in the place of each `None`", "on each blank line"
LINES = (4, 10)  # to write on, at least and at most; between them one for each minute


def task(exercise: Exercise) -> str:
    """Its title and its words, without hints."""
    return LINK.sub(r"\1", exercise.heading + exercise.statement).strip()


def sheet(lesson: Notebook, known: dict[str, Equation]) -> str:
    """The tasks, each with what it speaks of and with room to write, as Markdown."""
    link = f"{{.page-tools}}\n[The solutions, as a sheet]({lesson.name}_solutions.md)"
    parts = [f"# Exercises of lesson {lesson.title}", link, "Name:"]
    for each in lesson.exercises:
        parts += [":::::{container} exercise", task(each).replace(*ON_PAPER)]
        about = pieces(lesson, each, known)
        if about:
            parts += ["::::{container} from-lesson", "From the lesson:", *about, "::::"]
        stub = each.stub.source if each.stub else ""
        parts += [*room(stub, each.minutes), ":::::"]
    return "\n\n".join(parts) + "\n"


def solution_sheet(lesson: Notebook, solved: Notebook) -> str:
    """Each task, the words that explain its solution, and the code."""
    parts = ["---\norphan: true\n---", f"# Solutions of lesson {lesson.title}"]
    for each in lesson.exercises:
        asked = ["::::{container} task", task(each), "::::"]
        solved_here = solution(solved, each.number)
        parts += [":::::{container} exercise", *asked, *solved_here, ":::::"]
    return "\n\n".join(parts) + "\n"


def solution(solved: Notebook, number: int) -> list[str]:
    """The cells of one exercise, whose names begin with `ex2`, without the lines that check it."""
    parts = []
    for cell in solved.cells:
        if cell.id.split("-")[0] != f"ex{number}":
            continue
        if cell.cell_type == "markdown":
            words = re.sub(r"^## .+\n|^\*\*\d+\. .+?\*\*", "", cell.source)
            parts.append(LINK.sub(r"\1", words).strip())
        elif code := unchecked(cell.source):
            parts.append(fenced(code))
    return parts


def unchecked(code: str) -> str:
    return re.sub(r"^check\..+\n?", "", code, flags=re.M).strip()


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


# --- what a task speaks of


def pieces(lesson: Notebook, exercise: Exercise, known: dict[str, Equation]) -> list[str]:
    asked = listed(lesson.name).get(exercise.number, [])
    words = task(exercise)
    defined = definitions(lesson, before=exercise.cell)
    tags = {tag: {"formula": tag} for tag in re.findall(TAG, words)}
    code = " ".join(CODE.findall(words))
    named = {name: {"function": name} for name in re.findall(r"\w+", code) if name in defined}
    wanted = [*asked, *tags.values(), *named.values()]
    once = [about for place, about in enumerate(wanted) if about not in wanted[:place]]
    return [piece(lesson, about, known, defined) for about in once]


def listed(lesson: str) -> dict[int, list[dict]]:
    return yaml.safe_load(LIST.read_text("utf-8")).get(lesson, {})


def piece(lesson: Notebook, about: dict, known: dict[str, Equation], defined: dict) -> str:
    kind, name = next((key, value) for key, value in about.items() if key not in ("from", "to"))
    if kind == "formula" and name in known:
        return f"{name}:\n\n$$\n{known[name].latex}\n$$"
    if kind == "function" and name in defined:
        return fenced(defined[name])
    if kind == "words":
        return paragraphs(lesson.cell(name).source, f"{lesson.path.name}, cell {name}", about)
    if kind == "reference":
        page = lesson.path.parent / "reference" / name
        return paragraphs(page.read_text("utf-8"), f"reference/{name}", about)
    if kind == "code":
        return fenced(lesson.cell(name).source)
    if kind == "output":
        return f"```text\n{lesson.cell(name).printed}```"
    if kind == "figure":
        return image(lesson.cell(name).pictures[0])
    raise UnknownName(f"{LIST.name}: {lesson.name} has no {kind} {name!r} for its sheet")


def image(picture: Picture) -> str:
    source = base64.b64encode(picture.png).decode()
    alt = html.escape(picture.alt)
    return f'<img src="data:image/png;base64,{source}" alt="{alt}" width="{picture.width}">'


def paragraphs(source: str, place: str, about: dict) -> str:
    """The paragraphs from the one that holds `from` to the one that holds `to`."""
    found = source.split("\n\n")
    first = holding(about["from"], found, place)
    rest = found[first:]
    last = holding(about.get("to", about["from"]), rest, place)
    return LINK.sub(r"\1", "\n\n".join(rest[: last + 1]))


def holding(text: str, found: list[str], place: str) -> int:
    """Which of the paragraphs is the first that holds the text."""
    for number, words in enumerate(found):
        if text in words:
            return number
    raise UnknownName(f"{place}: {text!r} stands nowhere in it")


def definitions(lesson: Notebook, before: Cell) -> dict[str, str]:
    """Name -> source of each function and class that the lesson defines above a cell."""
    found: dict[str, str] = {}
    above = lesson.cells[: lesson.cells.index(before)]
    for cell in above:
        if cell.cell_type != "code":
            continue
        lines = cell.source.split("\n")
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
                found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


# --- room to write


def room(stub: str, minutes: int) -> list[str]:
    """The stub as code to complete by pen: lines where something is missing."""
    least, most = LINES
    lines = max(least, min(most, minutes))
    if not OPEN.search(stub):
        # what is missing further up is said by a comment in the code
        kept = "\n".join(line for line in stub.split("\n") if "raise NotImpl" not in line)
        return [fenced(BLANK.sub("________", kept)), rules(lines)] if kept else [rules(lines)]
    chunks = [chunk.strip("\n") for chunk in OPEN.split(stub)]
    gaps = len(chunks) - 1
    parts = []
    for place, chunk in enumerate(chunks):
        if chunk:
            parts.append(fenced(BLANK.sub("________", chunk)))
        if place < gaps:
            parts.append(rules(max(least, lines // gaps)))
    return parts


def rules(count: int) -> str:
    return f'<div class="rules" aria-hidden="true">{"<hr>" * count}</div>'
