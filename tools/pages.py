"""`make pages`: renew every page and picture that is made of the lessons or of data.

Each maker gives {path: what has to stand there}; tests/test_made_pages.py compares.
"""

from pathlib import Path

from normcourse import atomic
from tools import (
    bibliography,
    choose,
    claims,
    course_map,
    derivations,
    errata,
    glossary,
    hero,
    sources,
)
from tools.reference import REFERENCE

MAKERS = (
    hero,
    course_map,
    derivations,
    choose,
    claims,
    glossary,
    sources,
    bibliography,
    errata,
)


def no_longer_made() -> list[Path]:
    """Derivations to which no lesson links any more."""
    return sorted(set(REFERENCE.glob("derivation_*.md")) - derivations.made().keys())


def main() -> None:
    for path in no_longer_made():
        path.unlink()
    for maker in MAKERS:
        for path, content in maker.made().items():
            atomic.write(path, content)


if __name__ == "__main__":
    main()
