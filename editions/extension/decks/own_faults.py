"""What is wrong with a deck of one's own: its title, stray words, pictures, polls."""

from docutils import nodes
from sphinx.util import logging

from editions.extension.decks.lesson import deck_of, headings_of
from editions.extension.decks.slides import is_mine, own

log = logging.getLogger(__name__)


def check_title(env, sections) -> None:
    """A deck of one's own begins with a title."""
    if not sections:
        log.warning("the deck has no slide: write a heading `# …`", location=(env.docname, 1))
    elif deck_of(env, sections[0]) == env.docname and headings_of(env)[0] != "# ":
        log.warning("the deck begins without a title: write `# …` first", location=sections[0])


def misplaced(env, sections) -> bool:
    """Words that follow {slides-of} stand on no slide."""
    found = False
    for section in sections:
        deck = deck_of(env, section)
        for part in own(section):
            said = part.source and not isinstance(part, nodes.comment)
            if said and deck_of(env, part) != deck:
                log.warning("no slide has this: write a heading `## …` above it", location=part)
                found = True
    return found


def check_pictures(section) -> None:
    for picture in pictures_of(section):
        address = picture["uri"]
        if not is_mine(section):
            log.warning(
                "a picture that no lesson has: write :::{mine} on this slide of your own deck, "
                "or take it by {figure-of}",
                location=line_of(picture),
            )
        elif "://" in address:
            log.warning(
                "%s needs a network: save it beside the deck", address, location=line_of(picture)
            )
        elif not picture.get("alt"):
            log.warning(
                "%s has no text for those who do not see it: ![what it shows](%s)",
                address,
                address,
                location=line_of(picture),
            )


def check_polls(section) -> None:
    """Who decides: the lesson, or the lecturer on a slide of their own."""
    lists = [part for part in own(section) if isinstance(part, nodes.enumerated_list)]
    for poll in lists:
        answered = any("right" in option["classes"] for option in poll.children)
        if answered and not poll.get("seen") and not is_mine(section):
            log.warning(
                "`:seen: CELL /pattern/` says where the lesson shows the answer; "
                "without it write :::{mine} on this slide of your own deck",
                location=poll.children[0],
            )


def line_of(picture: nodes.image) -> nodes.Element:
    """The picture, or what it stands in: a picture in a sentence has no line."""
    return picture if picture.line else picture.parent


def pictures_of(section) -> list[nodes.image]:
    return [picture for part in own(section) for picture in part.findall(nodes.image)]
