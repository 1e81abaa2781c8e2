"""What the lessons are built on: checks, measures, timing, training and figures.

It imports normlib and is never imported by it. Each part that computes imports computing.py, which
sets one torch thread; the others (lesson, palette) load neither torch nor matplotlib.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from normcourse.computing import MOST_THREADS as MOST_THREADS
    from normcourse.computing import draw as draw


def __getattr__(name: str):
    """`from normcourse import draw` loads torch only when somebody asks for it."""
    if name in ("MOST_THREADS", "draw"):
        from normcourse import computing

        return getattr(computing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
