"""What is wrong with a deck and would not be seen: all of it is named, each with its line."""

import re

from docutils import nodes
from sphinx.util import logging

from editions.extension.decks import numbers, own_faults
from editions.extension.decks.lesson import (
    deck_of,
    everything,
    head_of,
    headings_of,
    is_deck,
    is_own,
    lesson_of,
)
from editions.extension.decks.slides import cells_of, is_mine, is_then, own, speaker_notes
from normcourse.lesson import UnknownName

log = logging.getLogger(__name__)
WORDS_A_MINUTE = 130
ABOUT = 0.06  # so far off may `a third` be
MARKUP = re.compile(r":::|\{\{|\$\$|\]\(|\{value\}|\*\*\[")
NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*%?(?![\w])")
YEAR = r"\b(?:19|20)\d\d\b"
NO_RESULT = re.compile(rf"{YEAR}|[Ll]essons? \d+\w?|\d+ minutes?|float\d+|ResNet-\d+")
SET = (nodes.math, nodes.math_block, nodes.literal, nodes.literal_block, nodes.raw, nodes.comment)
NOT_WORDS = (*SET, nodes.system_message)


def check(app, doctree):
    env = app.env
    if not is_deck(env.docname):
        return
    sections = list(doctree.findall(nodes.section))
    check_count(env, sections)
    check_markup(doctree)
    if is_own(env.docname):
        own_faults.check_title(env, sections)
        if own_faults.misplaced(env, sections):
            return
    else:
        check_exercises(sections)
    for section in sections:
        check_notes(section)
        check_words(env, section)
    check_minutes(env, sections)


def check_count(env, sections) -> None:
    """A fence that is not closed swallows the slides behind it."""
    written = len(headings_of(env))
    made = len([section for section in sections if deck_of(env, section) == env.docname])
    if written != made:
        log.warning(
            "%d headings of level 1 or 2, but %d slides: a fence is open, or a heading is deeper",
            written,
            made,
            location=(env.docname, 1),
        )


def check_words(env, section) -> None:
    """What a slide says is its lesson's, unless the slide is the lecturer's own."""
    own_faults.check_pictures(section)
    own_faults.check_polls(section)
    if is_mine(section):
        return
    try:
        lesson = lesson_of(env, deck_of(env, section))
    except UnknownName as fault:
        also = ", or :::{mine} on this slide if it is your own" if is_own(env.docname) else ""
        log.warning("%s%s", fault, also, location=section)
        return
    check_numbers(section, lesson)
    check_number_words(section, lesson)


def check_markup(doctree) -> None:
    for text in doctree.findall(nodes.Text):
        if MARKUP.search(text) and not isinstance(text.parent, NOT_WORDS):
            log.warning("left in the words: %r", str(text)[:60], location=text.parent)


def check_notes(section) -> None:
    notes = [part for part in own(section) if isinstance(part, speaker_notes)]
    if len(notes) != 1:
        log.warning("a slide needs notes with its minutes, once", location=section)
        return
    words = len(notes[0].astext().split())
    spoken = words / WORDS_A_MINUTE
    minutes = notes[0]["minutes"]
    if spoken > minutes:
        log.warning(
            "the notes have %d words, %.1f minutes of speech, and the slide has %g",
            words,
            spoken,
            minutes,
            location=section,
        )


def check_numbers(section, lesson) -> None:
    """A number of two digits or more in words or notes has to be one of the slide's cells."""
    cells = cells_of(section)
    known = "\n".join(everything(lesson, cell) for cell in cells)
    for number in NUMBER.findall(NO_RESULT.sub(" ", words_of(section))):
        if len(number) > 1 and not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", known):
            log.warning(
                "%s stands in none of the slide's cells %s", number, cells, location=section
            )


def check_number_words(section, lesson) -> None:
    """`Nine tenths`, and words of ten or more, are numbers of the slide or of its cells."""
    cells = [*cells_of(section), *decided_by(section)]
    shown = [read(part) for part in own(section) if not isinstance(part, speaker_notes)]
    shown += [everything(lesson, cell) for cell in cells]
    known = set().union(*map(numbers.in_digits, shown))
    known |= {value for text in shown for _, value in numbers.words(text)}
    text = words_of(section)
    for words, value in numbers.parts(text):
        if not any(near(value, number) or near(100 * value, number) for number in known):
            complain(words, section, cells)
    for words, value in numbers.words(text):
        if value >= 10 and value not in known and value / 100 not in known:
            complain(words, section, cells)


def read(part) -> str:
    """The words and formulas of a part, without HTML: the pixels of a chart are no result."""
    found = part.findall(nodes.Text)
    return " ".join(text for text in found if not isinstance(text.parent, nodes.raw))


def decided_by(section) -> list[str]:
    """The cells that decide the polls of a slide; it may show them on the next one."""
    lists = [part for part in own(section) if isinstance(part, nodes.enumerated_list)]
    return [poll["seen"] for poll in lists if poll.get("seen")]


def near(value: float, number: float) -> bool:
    return abs(value - number) <= ABOUT * value


def complain(words: str, section, cells) -> None:
    log.warning(
        "'%s' is no number of the slide or of its cells %s: show it there, as a formula say",
        words,
        cells,
        location=section,
    )


def words_of(section) -> str:
    """What the slide says without formulas, code, {value} and the options of polls."""
    words = nodes.container("", *(part.deepcopy() for part in own(section)))
    for part in list(words.findall(is_no_word)):
        part.parent.remove(part)
    return words.astext()


def is_no_word(node) -> bool:
    taken = (
        {"measured", "poll", "sources"} & set(node.get("classes", []))
        if is_element(node)
        else set()
    )
    return isinstance(node, NOT_WORDS) or bool(taken)


def is_element(node) -> bool:
    return isinstance(node, nodes.Element)


def check_minutes(env, sections) -> None:
    title = sections[0] if sections else (env.docname, 1)
    notes = [part for section in sections for part in own(section)]
    total = sum(part["minutes"] for part in notes if isinstance(part, speaker_notes))
    wanted = head_of(env, env.docname).get("minutes")
    if wanted is None and not is_own(env.docname):
        log.warning("the deck says no minutes in its head", location=title)
    elif wanted is not None and total != float(wanted):
        log.warning("the slides take %g minutes, the deck says %s", total, wanted, location=title)


def check_exercises(sections) -> None:
    """The last slide has two exercises for the room."""
    last = sections[-1]
    lists = [part for part in own(last) if isinstance(part, nodes.enumerated_list)]
    if [len(exercises.children) for exercises in lists] != [2]:
        log.warning("the last slide has no list of two exercises", location=last)
    formulas = " ".join(part.astext() for part in last.findall(is_formula))
    calculated = set(numbers.in_digits(formulas))
    for result in [each for box in own(last) if is_then(box) for each in box.findall(is_measured)]:
        if numbers.value_of(result.astext()) not in calculated:
            log.warning(
                "%s answers an exercise, and no formula on the slide has it: "
                "the cell may have it for other numbers than the question's",
                result.astext(),
                location=result,
            )


def is_formula(node) -> bool:
    return isinstance(node, nodes.math | nodes.math_block)


def is_measured(node) -> bool:
    return is_element(node) and "measured" in node["classes"]


def setup(app):
    app.connect("doctree-read", check, priority=900)  # the head of the file is read by then
