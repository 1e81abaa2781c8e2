"""Less time than the deck takes, or laptops in the room: what its lecturer does then.

In the head of a deck `late:` lists the slides that can be left out. `laptop:` has an exercise of
the lesson, and the slide behind which pairs solve it. The notes of the title say both; those of a
slide with a figure to move say where the room finds it.
"""

import re
from dataclasses import dataclass

from docutils import nodes
from sphinx.util import logging

from editions.extension.decks.lesson import (
    COURSE,
    Misfit,
    deck_of,
    head_and_slides,
    is_deck,
    lesson_name,
    lesson_of,
    path_of,
)
from editions.extension.decks.own import near, slides_in
from editions.extension.decks.slides import own, speaker_notes
from editions.extension.interactive import interactive
from normcourse.lesson import Notebook, UnknownName

log = logging.getLogger(__name__)
NOTES = re.compile(r"^:::+ *\{notes\} ([\d.]+)", re.M)
FIGURE = (
    "On the projector one of them drags, and the pairs write down first what they expect. On "
    "laptops it is the page figures/{name}.html of the students' folder."
)


@dataclass
class Spare:
    late: list[str]  # headings of slides
    spared: float  # minutes that they take
    exercise: int
    behind: str  # the heading of a slide
    minutes: int  # that the exercise takes

    def sentences(self) -> str:
        return (
            f"If you are late, leave out {listed(self.late)}: {self.spared:g} minutes. "
            f"With laptops in the room, leave out these and the last slide. Behind "
            f"“{self.behind}” pairs solve exercise {self.exercise} of the lesson, in about "
            f"{self.minutes} minutes; of the cells above it they run the setup alone."
        )

    def row(self, deck: str) -> str:
        """The deck's line in lectures/README.md."""
        late = f"{listed(self.late)} ({self.spared:g} minutes)"
        laptop = f"{self.exercise} ({self.minutes} minutes), behind “{self.behind}”"
        return f"| {deck.partition('_')[0]} | {late} | {laptop} |"


def listed(headings: list[str]) -> str:
    return ", ".join(f"“{heading}”" for heading in headings)


def spare(deck: str, lesson: Notebook) -> Spare | None:
    """From the text of a deck; None where its head says nothing of it. Misfit for what is wrong."""
    head, _ = head_and_slides(deck)
    if "late" not in head or "laptop" not in head:
        return None
    slides = {heading: minutes(text) for heading, (_, text) in slides_in(deck).items()}
    late, laptop = head["late"], head["laptop"]
    for heading in [*late, laptop["behind"]]:
        if heading not in slides:
            raise Misfit(f"the head names a slide {heading!r}{near(heading, slides)}")
    number = laptop["exercise"]
    needed = {each.number: each.minutes for each in lesson.exercises}.get(number)
    if needed is None:
        raise Misfit(f"the head names exercise {number}, and {lesson.name} has none of it")
    spared = sum(slides[heading] for heading in late)
    last = list(slides.values())[-1]
    if needed > spared + last:
        raise Misfit(
            f"exercise {number} takes {needed} minutes, and the slides that the head leaves out "
            f"take {spared:g}, with the last one {spared + last:g}"
        )
    return Spare(late, spared, number, laptop["behind"], needed)


def minutes(slide: str) -> float:
    """What the notes of a slide say that it takes."""
    return sum(map(float, NOTES.findall(slide)))


def tell(app, doctree):
    env = app.env
    title = next(doctree.findall(nodes.section), None)
    if not env.docname.startswith(COURSE) or title is None:
        return
    try:
        found = spare(path_of(env, env.docname).read_text("utf-8"), lesson_of(env, env.docname))
    except UnknownName:  # another check names it
        return
    except Misfit as fault:
        log.warning("%s", fault, location=title)
        return
    notes = next(title.findall(speaker_notes), None)
    if found and notes:
        notes += nodes.paragraph("", found.sentences())


def tell_of_figures(app, doctree):
    if not is_deck(app.env.docname):
        return
    for section in doctree.findall(nodes.section):
        parts = own(section)
        notes = [part for part in parts if isinstance(part, speaker_notes)]
        if notes and any(isinstance(part, interactive) for part in parts):
            name = lesson_name(app.env, deck_of(app.env, section))
            notes[0] += nodes.paragraph("", FIGURE.format(name=name))


def setup(app):
    for told in (tell, tell_of_figures):
        app.connect("doctree-read", told, priority=950)  # these words are not counted as spoken
