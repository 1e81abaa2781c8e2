"""A deck of one's own: slides that it takes of the course's decks, and slides that are yours."""

import difflib
import re
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from editions.extension.decks.lesson import (
    COURSE,
    TAKEN_FROM,
    Misfit,
    head_of,
    is_own,
    without_comments,
)
from editions.extension.decks.slides import mine

SLIDE = re.compile(r"^##? (.+)$", re.M)
MINUTES = re.compile(r" +% [\d.]+ min$")  # behind a heading, as tools/deck.py writes them
BEGUN = re.compile(r"^:::\{begins\} (.+)$", re.M)


def slides_in(deck: str) -> dict[str, tuple[int, str]]:
    """{heading: (its line, counted from 0, and the slide's text)} of a deck."""
    starts = [*SLIDE.finditer(without_comments(deck))]
    ends = [*(start.start() for start in starts[1:]), len(deck)]
    return {
        start[1].strip(): (deck.count("\n", 0, start.start()), deck[start.start() : end])
        for start, end in zip(starts, ends, strict=True)
    }


def with_points(slides: dict[str, tuple[int, str]]) -> dict[str, tuple[int, str]]:
    """Each slide says its point of the plan: the one that begins it may be left out."""
    point = None
    said = {}
    for heading, (line, text) in slides.items():
        begun = BEGUN.search(text)
        point = begun[1] if begun else point
        mark = "" if begun or point is None else f"\n:::{{begins}} {point}\n:::\n"
        said[heading] = (line, text + mark)
    return said


class Own(SphinxDirective):
    """A directive that only a deck of one's own knows; a fault is named with its line."""

    def run(self):
        try:
            if not is_own(self.env.docname):
                raise Misfit(f"{{{self.name}}} is for a deck of your own, in my/lectures")
            return self.part()
        except Misfit as fault:
            raise self.error(str(fault)) from None


class SlidesOf(Own):
    """Slides of a course deck: those whose headings are listed, or all others, or all."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"without": directives.flag}

    def part(self):
        (name,) = self.arguments
        known = with_points(slides_in(self.course_deck(name)))
        listed = [MINUTES.sub("", line).strip() for line in self.content if line.strip()]
        for heading in listed:
            if heading not in known:
                raise Misfit(f"{COURSE}{name}.md has no slide {heading!r}{near(heading, known)}")
        chosen = listed or list(known)
        if "without" in self.options:
            if not listed:
                raise Misfit(":without: wants the headings of the slides to leave out, one a line")
            chosen = [heading for heading in known if heading not in listed]
            if not chosen:
                raise Misfit(f"no slide of {name} is left: delete the whole directive")
        self.check_title(known[chosen[0]][1])
        for heading in chosen:
            self.render(name, *known[heading])
        return []

    def check_title(self, slide: str) -> None:
        """What comes first in a deck is a title."""
        begun = any(self.state.document.findall(nodes.section))
        if not begun and not slide.startswith("# "):
            raise Misfit("the deck begins without a title: write `# …` above these slides")

    def course_deck(self, name: str) -> str:
        folder = Path(self.config.course_decks)
        path = folder / f"{name}.md"
        if not path.is_file():
            known = [deck.stem for deck in sorted(folder.glob("[0-9]*.md"))]
            raise Misfit(f"there is no deck {COURSE}{name}.md{near(name, known)}")
        self.env.note_dependency(str(path))
        return path.read_text("utf-8")

    def render(self, name: str, line: int, text: str) -> None:
        """Read the slide as if it stood in this deck; its faults are named in its own file."""
        with self.place(name):
            self.state._renderer.nested_render_text(text, line)

    @contextmanager
    def place(self, name: str):
        document = self.state.document
        told = document["source"], document.current_source, document.reporter.source
        path = str(Path(self.env.srcdir, COURSE, f"{name}.md"))
        document["source"] = document.current_source = document.reporter.source = path
        document.reporter.get_source_and_line = lambda line=None: (path, line)
        self.env.temp_data[TAKEN_FROM] = f"{COURSE}{name}"
        try:
            yield
        finally:
            document["source"], document.current_source, document.reporter.source = told
            del document.reporter.get_source_and_line
            del self.env.temp_data[TAKEN_FROM]


def near(name: str, known) -> str:
    found = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    return f"; near it: {' | '.join(found)}" if found else f"; it has: {' | '.join(known)}"


class Mine(Own):
    """The slide is the lecturer's: free numbers, pictures, and the logo that the head names."""

    def part(self):
        mark = mine()
        logo = head_of(self.env, self.env.docname).get("logo")
        if logo:
            picture = nodes.image(uri=str(logo), alt="logo", classes=["logo"])
            self.set_source_info(picture)
            mark += picture
        return [mark]


def setup(app):
    app.add_config_value("course_decks", "", "env", types=str)
    app.add_directive("slides-of", SlidesOf)
    app.add_directive("mine", Mine)
