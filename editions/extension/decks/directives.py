"""What a deck may say besides words; lectures/README.md shows each of them."""

import html
import re
import textwrap
from functools import cached_property
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from editions.extension.decks import columns, polls
from editions.extension.decks.figures import figure, panel, whole
from editions.extension.decks.lesson import (
    Misfit,
    here,
    is_own,
    lesson_of,
    path_of,
    said,
    where_stated,
)
from editions.extension.decks.rows import readable
from editions.extension.decks.slides import beside, speaker_notes
from normcourse.lesson import UnknownName

log = logging.getLogger(__name__)
LETTERS = "ABCDEFGH"
RELATION = re.compile(r",\s*(?:\\qquad|\\\\)")
SMALLEST = 18  # pixels of the letters of code
LARGEST = 26
LETTER = 0.61  # the width of a letter of code, for a height of one
EDGE = 50  # pixels that the frame round code needs


def raw(text: str, cell: str = "") -> nodes.raw:
    """HTML, and the cell that it comes from."""
    return nodes.raw("", text, format="html", cell=cell)


def formula(latex: str) -> nodes.math_block:
    return nodes.math_block(latex, latex, nowrap=False, number=None, label=None)


class Part(SphinxDirective):
    """A fault of it is named with the line where the directive stands."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        try:
            return [self.part(*self.arguments)]
        except (UnknownName, Misfit) as fault:
            raise self.error(str(fault)) from None

    @cached_property
    def lesson(self):
        return lesson_of(self.env)

    def room(self) -> tuple[float, float]:
        """Width and height in pixels of what the slide has for a picture here."""
        source = path_of(self.env, here(self.env)).read_text("utf-8").split("\n")
        return columns.room(source, self.lineno)

    def inside(self, box: nodes.Element) -> nodes.Element:
        """The box with the Markdown between the fences."""
        self.state.nested_parse(self.content, self.content_offset, box)
        for child in box.children:
            if any(isinstance(n, nodes.rubric | speaker_notes) for n in child.findall()):
                raise Misfit("a heading or notes between the fences: close the fence before them")
        return box


class FigureOf(Part):
    option_spec: ClassVar = {
        "steps": directives.flag,
        "panel": directives.positive_int,
        "height": directives.positive_int,
    }

    def part(self, cell):
        pictures = self.lesson.cell(cell).pictures
        if not pictures:
            raise Misfit(f"cell {cell} shows no figure")
        picture = pictures[0]
        number = self.options.get("panel")
        shown = panel(picture, number) if number else whole(picture)
        width, height = self.room()
        room = width, self.options.get("height", height)
        return raw(figure(picture, cell, shown, room, "steps" in self.options), cell)


class EqOf(Part):
    option_spec: ClassVar = {
        "steps": directives.flag,
        "mark": directives.unchanged_required,
        "long": directives.flag,  # in smaller letters
    }

    def part(self, tag):
        latex = self.lesson.formula(tag)
        box = nodes.container(classes=["eq", *(["long"] if "long" in self.options else [])])
        if "steps" in self.options:
            box["classes"].append("steps")
            for number, relation in enumerate(relations(latex)):
                later = ["fragment"] if number else []
                box += nodes.container("", formula(relation), classes=later)
        else:
            box += formula(self.marked(latex, tag))
        box += raw(f'<span class="tag">{tag}</span>', where_stated(self.lesson, tag))
        return box

    def marked(self, latex, tag):
        mark = self.options.get("mark")
        if mark is None:
            return latex
        if mark not in latex:
            raise Misfit(f"{mark!r} is no part of {tag}: {latex}")
        return latex.replace(mark, rf"\htmlClass{{fragment colour}}{{{mark}}}")


class FormulaOf(Part):
    """A displayed formula of a Markdown cell: the first, or the one of this number."""

    option_spec: ClassVar = {"number": directives.positive_int}

    def part(self, cell):
        found = self.lesson.cell(cell).displayed
        number = self.options.get("number", 1)
        if number > len(found):
            raise Misfit(f"formula {number}, but {cell} displays {len(found)}")
        box = nodes.container("", formula(found[number - 1]), classes=["eq"])
        box += raw("", cell)
        return box


def relations(latex: str) -> list[str]:
    lines = re.sub(r"\\(?:begin|end)\{gathered\}", "", latex)
    return [part.strip() for part in RELATION.split(lines)]


class Lines(Part):
    """From the line that holds one text to the line that holds another."""

    option_spec: ClassVar = {
        "from": directives.unchanged_required,
        "to": directives.unchanged_required,
        "without": directives.unchanged_required,
    }

    def chosen(self, text: str) -> str:
        rows = text.rstrip("\n").split("\n")
        first = self.row("from", rows, 0) if "from" in self.options else 0
        last = self.row("to", rows, first) if "to" in self.options else len(rows) - 1
        return self.shortened(textwrap.dedent("\n".join(rows[first : last + 1])))

    def shortened(self, text: str) -> str:
        """Without what a pattern names: `you: None` is of no use in a room."""
        pattern = self.options.get("without")
        if pattern is None:
            return text
        if not re.search(pattern, text):
            raise Misfit(f":without: {pattern!r} stands in none of its lines: {text}")
        return re.sub(pattern, "", text)

    def row(self, option: str, rows: list[str], start: int) -> int:
        wanted = self.options[option]
        for number in range(start, len(rows)):
            if wanted in rows[number]:
                return number
        raise Misfit(f":{option}: {wanted!r} stands in none of its lines: {rows}")


class OutputOf(Lines):
    def part(self, cell):
        text = self.chosen(self.lesson.cell(cell).printed)
        if not text:
            raise Misfit(f"cell {cell} printed nothing")
        # what is longer than the slide goes on in the next line
        size = max(22, letters(text, self.room()[0]))
        return raw(f'<pre class="out" style="font-size:{size}px">{html.escape(text)}</pre>', cell)


class CodeOf(Lines):
    def part(self, cell):
        code = self.chosen(self.lesson.cell(cell).source)
        size = letters(code, self.room()[0])
        if size < SMALLEST:
            raise Misfit(
                f"a line of {cell} is too long for a slide: choose lines by :from: and :to:"
            )
        body = highlight(code, PythonLexer(), HtmlFormatter(nowrap=True))
        style = f'style="font-size:{size}px"'
        return raw(f'<pre class="code highlight" {style}><code>{body}</code></pre>', cell)


def letters(text: str, width: float) -> int:
    """The height in pixels at which the longest line fits the width."""
    longest = max(map(len, text.split("\n")))
    return min(LARGEST, int((width - EDGE) / LETTER / max(longest, 1)))


class Poll(Part):
    """A list of options; the right one is marked at the next click. The lesson says which it is."""

    required_arguments = 0
    has_content = True
    option_spec: ClassVar = {
        "answer": directives.unchanged_required,
        "seen": directives.unchanged_required,
    }

    def part(self):
        options = list(self.inside(nodes.container()).findall(nodes.list_item))
        letters = LETTERS[: len(options)]
        answer = self.options.get("answer")
        if answer is not None and answer not in list(letters):
            raise Misfit(f"the answer is {answer}, and the options are {', '.join(letters)}")
        by_the_lesson = "seen" in self.options or not self.is_free()
        if answer is not None and by_the_lesson:
            self.compare(answer, options)
        for letter, option in zip(letters, options, strict=True):
            option["classes"] += ["fragment", "custom", "right"] if letter == answer else []
        look = {"enumtype": "upperalpha", "prefix": "", "suffix": ".", "classes": ["poll"]}
        look |= {"seen": self.options.get("seen", "").partition(" ")[0]}
        return nodes.enumerated_list("", *options, **look)

    def is_free(self) -> bool:
        """In a deck of one's own :::{mine} may stand on the slide: own_faults.py looks for it."""
        return is_own(here(self.env))

    def compare(self, answer: str, options: list[nodes.list_item]) -> None:
        """The answer is the option that the lesson decides for."""
        if "seen" not in self.options:
            raise Misfit(":seen: CELL /pattern/ says where the lesson shows the answer")
        cell, _, pattern = self.options["seen"].partition(" ")
        text = said(self.lesson, cell)
        if any(marks(option) for option in options):
            right = polls.described(text, [marks(option) for option in options])
        else:
            right = polls.nearest(seen(text, cell, pattern), [o.astext() for o in options])
        if right is None or LETTERS[right] != answer:
            other = "none of the options" if right is None else f"option {LETTERS[right]}"
            raise Misfit(f"the answer is {answer}, but {cell} shows {other}: {text.strip()}")


def seen(text: str, cell: str, pattern: str) -> list[str]:
    match = re.search(pattern.strip().strip("/"), text)
    if not match:
        raise Misfit(f"{pattern} is not in what {cell} shows: {text.strip()}")
    return list(match.groups()) or [match[0]]


class Marks(SphinxRole):
    """{if}`/pattern/` behind an option of a poll: what the cell shows if it is the right one."""

    def run(self):
        return [nodes.inline(classes=["if"], pattern=self.text.strip().strip("/"))], []


def marks(option: nodes.list_item) -> str:
    found = option.findall(lambda node: isinstance(node, nodes.inline) and "if" in node["classes"])
    return next((node["pattern"] for node in found), "")


class Then(Part):
    """The rest of the slide comes at the next click: slides.py puts it into this box."""

    required_arguments = 0
    kinds: ClassVar = ["fragment"]

    def part(self):
        return nodes.container(classes=[*self.kinds])


class Answer(Then):
    """The same; on the handout for students its place is left empty."""

    kinds: ClassVar = ["fragment", "answer"]


class Beside(Part):
    """What follows stands at the right of what came before, in so many percent of the width."""

    required_arguments = 0
    optional_arguments = 1

    def part(self, percent=str(columns.HALF)):
        return beside(percent=columns.percent(percent))


class Notes(Part):
    has_content = True

    def part(self, minutes):
        try:
            length = float(minutes)
        except ValueError:
            raise Misfit(f"notes take the minutes of their slide, not {minutes!r}") from None
        return self.inside(speaker_notes(minutes=length))


class Value(SphinxRole):
    """A result in words: {value}`CELL /pattern/`, its first group if it has one."""

    def run(self):
        cell, _, pattern = self.text.partition(" ")
        try:
            text = self.found(cell, pattern.strip().strip("/"))
        except (UnknownName, Misfit) as fault:
            log.warning(str(fault), location=self.get_location())
            return [], []
        # not "value": in the speaker's window that is a class of the clock
        return [nodes.inline(text, text, classes=["measured"], cell=cell)], []

    def found(self, cell: str, pattern: str) -> str:
        if not pattern:
            raise Misfit("{value} wants a cell and a /pattern/, with a space between them")
        text = said(lesson_of(self.env), cell)
        match = re.search(pattern, text)
        if not match:
            raise Misfit(f"/{pattern}/ is not in what {cell} shows: {text.strip()}")
        return readable((match[1] if match.groups() else match[0]).strip())


PARTS = {
    "figure-of": FigureOf,
    "eq-of": EqOf,
    "formula-of": FormulaOf,
    "output-of": OutputOf,
    "code-of": CodeOf,
    "poll": Poll,
    "then": Then,
    "answer": Answer,
    "beside": Beside,
    "notes": Notes,
}


def setup(app):
    for name, part in PARTS.items():
        app.add_directive(name, part)
    app.add_role("value", Value())
    app.add_role("if", Marks())
