"""Which exercises the reader has solved; `make lab` names the file, else none is written."""

import json
import os
from pathlib import Path

from normcourse import atomic

VARIABLE = "NORMLIB_SOLVED"  # holds the path of the file while the lab runs


def remember(lesson: str, exercise: str, exercises: set[str]) -> str:
    """Note that a check of this lesson, which has these exercises, said [ok].

    Returns: how many are solved now, or why this one could not be noted; empty where nobody asked
        for it. A file that cannot be read or written is left alone.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return ""
    try:
        known = _add(Path(path), lesson, exercise)
    except OSError as error:
        return f"solved, but not noted ({Path(path).name}: {error.strerror})"
    except (ValueError, TypeError, AttributeError):
        cure = "the next `make lab` begins a new one"
        return f"solved, but not noted ({Path(path).name} is damaged; {cure})"
    return f"{len(exercises & set(known))} of {len(exercises)} exercises of this lesson are solved"


def solved(path: Path) -> dict[str, list[str]]:
    """{lesson: its solved exercises}; empty where there is no such file."""
    if not path.exists():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))


def _add(path: Path, lesson: str, exercise: str) -> list[str]:
    lessons = solved(path)
    known = lessons.setdefault(lesson, [])
    if exercise not in known:
        known.append(exercise)
        atomic.write(path, json.dumps(lessons, indent=1) + "\n")
    return known
