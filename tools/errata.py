"""Makes notebooks/reference/errata.md for `make pages`: the changelog's corrections by lesson."""

import re
from pathlib import Path

from tools import reference

PAGE = reference.REFERENCE / "errata.md"
CHANGELOG = reference.ROOT / "CHANGELOG.md"
SECTION = re.compile(r"^### Corrections\n(.*?)(?=^##|\Z)", re.S | re.M)
CORRECTION = re.compile(r"^- (\d\d\w?): (.+)$", re.M)
HEAD = """# Errata

If you read a lesson some time ago: what it said, in short, and what is right. The lessons as they stand have all of it. Made from the corrections in `CHANGELOG.md`.
"""  # noqa: E501


def corrections(changelog: str) -> dict[str, list[str]]:
    """What fell in each lesson, the lessons in their order."""
    found: dict[str, list[str]] = {}
    for section in SECTION.findall(changelog):
        for lesson, words in CORRECTION.findall(section):
            found.setdefault(lesson, []).append(words)
    return dict(sorted(found.items()))


def made() -> dict[Path, str]:
    return {PAGE: page(CHANGELOG.read_text("utf-8"))}


def page(changelog: str) -> str:
    lessons = reference.lessons()
    parts = [HEAD]
    for number, items in corrections(changelog).items():
        if number not in lessons:
            raise ValueError(
                f"CHANGELOG.md corrects lesson {number}, and there is none: "
                "name the lesson that has its subject now"
            )
        title = reference.headings(lessons[number])[0]
        rows = "\n".join(f"- {item}" for item in items)
        parts.append(f"## [{title}](../{lessons[number].name})\n\n{rows}\n")
    return "\n".join(parts)
