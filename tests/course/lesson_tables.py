"""What the tests of the tables "How sure is this?" share."""

from collections.abc import Iterable

import pytest

OWN = "as in the lesson"


def each(kinds: Iterable[str]) -> list:
    """A parameter a kind: make test runs the lesson's own, make test-portable the others too."""
    return [pytest.param(kind, marks=[] if kind == OWN else pytest.mark.slow) for kind in kinds]
