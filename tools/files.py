"""Files of the tools: written whole or not at all, and what to tell of a notebook that is none."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# By its path, not by its package: that would import torch, and some tools need none.
write = runpy.run_path(str(ROOT / "normcourse" / "atomic.py"))["write"]


def no_notebook(path: Path) -> str:
    """One sentence about a course's notebook that cannot be read as one, with the cure."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    holds = "is damaged"
    if any(line.startswith(b"<<<<<<<") for line in path.read_bytes().splitlines()):
        holds = "holds conflict markers (<<<<<<<), because git found it changed here and there"
    return (
        f"{name} {holds}: keep a copy of what you wrote in it, "
        f"then `git checkout origin/HEAD -- {name}` takes the course's."
    )
