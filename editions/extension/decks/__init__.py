"""Lecture decks: Markdown with directives that take everything else from the checked notebook."""

from editions.extension.decks import (
    directives,
    faults,
    interactive,
    own,
    plan,
    results,
    slides,
    spare,
)


def setup(app):
    for part in (directives, results, interactive, own, plan, slides, faults, spare):
        part.setup(app)
