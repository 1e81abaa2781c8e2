"""Which exercises the reader has solved:
`make lab` names the file, and without it nothing is written.
"""

import contextlib
import json
import os
from pathlib import Path

VARIABLE = "NORMLIB_SOLVED"  # holds the path of the file while the lab runs


def remember(lesson: str, exercise: str) -> None:
    """Note that a check of this lesson said [ok].

    A file that cannot be read or written is left alone.
    """
    path = os.environ.get(VARIABLE)
    if path:
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            _add(Path(path), lesson, exercise)


def solved(path: Path) -> dict[str, list[str]]:
    """{lesson: its solved exercises}; empty where there is no such file."""
    if not path.exists():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))


def _add(path: Path, lesson: str, exercise: str) -> None:
    lessons = solved(path)
    known = lessons.setdefault(lesson, [])
    if exercise in known:
        return
    known.append(exercise)
    written = path.with_name(path.name + ".new")
    written.write_text(json.dumps(lessons, indent=1) + "\n", encoding="utf-8")
    os.replace(written, path)
