"""What to tell of a course's notebook that is none."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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
