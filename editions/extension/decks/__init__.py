"""Lecture decks: Markdown with directives that take everything else from the checked notebook."""

from editions.extension.decks import directives, faults, slides


def setup(app):
    for part in (directives, slides, faults):
        part.setup(app)
