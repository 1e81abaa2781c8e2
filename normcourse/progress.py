"""Which exercises the reader has solved; `make lab` names the file, else none is written."""

import json
import os
from pathlib import Path

from normcourse import atomic

VARIABLE = "NORMLIB_SOLVED"  # holds the path of the file while the lab runs


def remember(lesson: str, exercise: str) -> str:
    """Note that a check of this lesson said [ok].

    Returns: why that could not be noted; empty where it was, or nobody asked for it. A file that
        cannot be read or written is left alone.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return ""
    try:
        _add(Path(path), lesson, exercise)
    except OSError as error:
        return f"{Path(path).name}: {error.strerror}"
    except (ValueError, TypeError, AttributeError):
        return f"{Path(path).name} is damaged; the next `make lab` begins a new one"
    return ""


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
    atomic.write(path, json.dumps(lessons, indent=1) + "\n")
