"""The learner's copy of the lessons in my/: made, renewed with the course, and counted.

A file that the reader changed is never overwritten: it is kept as NAME.old.ipynb when the course
has a newer one. The reader's own records (my/records/own) are not touched at all.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

GIVEN = ".given.json"  # in the copy: {file: the signature of what was given to the reader}
OWN = "records/own"
SKIPPED = {".ipynb_checkpoints", "__pycache__"}


class News(NamedTuple):
    """What renew did: files that are newer now,
    and the names under which the reader's own are kept.
    """

    renewed: list[str]
    kept: list[str]


def renew(source: Path, target: Path) -> News:
    """Copy the course's files into the learner's copy;
    each is left alone unless the course's is newer.
    """
    given = read_given(target)
    news = News([], [])
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if path.is_dir() or SKIPPED & set(path.parts) or name.startswith(OWN):
            continue
        content = learners_form(path)
        newest = signature(name, content)
        mine = target / name
        if not mine.exists():
            _write(mine, content)
        elif given.get(name) != newest:
            if signature(name, mine.read_bytes()) not in (given.get(name), newest):
                old = _free_name(mine)
                mine.rename(old)
                news.kept.append(old.relative_to(target).as_posix())
            if name in given:
                news.renewed.append(name)
            _write(mine, content)
        given[name] = newest
    (target / OWN).mkdir(parents=True, exist_ok=True)
    _write(target / GIVEN, (json.dumps(given, indent=1) + "\n").encode())
    return news


def read_given(target: Path) -> dict[str, str]:
    """{file: signature} of what the reader was given; empty before the first time."""
    path = target / GIVEN
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def learners_form(path: Path) -> bytes:
    """A file as the reader gets it: a notebook without outputs, its drawing cells collapsed."""
    content = path.read_bytes()
    if path.suffix != ".ipynb":
        return content
    notebook = json.loads(content)
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["outputs"] = []
        cell["execution_count"] = None
        if "hide-input" in cell["metadata"].get("tags", []):
            cell["metadata"].setdefault("jupyter", {})["source_hidden"] = True
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def signature(name: str, content: bytes) -> str:
    """What a reader can change: of a notebook the cells' texts, not what running it writes."""
    if name.endswith(".ipynb"):
        try:
            cells = json.loads(content)["cells"]
            content = json.dumps([[cell["cell_type"], _text(cell)] for cell in cells]).encode()
        except (ValueError, KeyError, TypeError):  # damaged: it is what it is
            pass
    return hashlib.sha256(content).hexdigest()


def _text(cell: dict) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _free_name(path: Path) -> Path:
    """NAME.old.ipynb, or NAME.old2.ipynb where that one is taken."""
    count = 1
    while True:
        free = path.with_name(f"{path.stem}.old{count if count > 1 else ''}{path.suffix}")
        if not free.exists():
            return free
        count += 1


def _write(path: Path, content: bytes) -> None:
    """All or nothing: an interrupted start leaves no half of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    new.replace(path)


def announcement(news: News) -> str:
    """One line for the reader; empty when nothing is newer."""
    if not news.renewed:
        return ""
    lessons = [Path(name).stem for name in news.renewed if re.match(r"\d\d", name)]
    line = (
        "A newer edition of the course: "
        f"{', '.join(lessons) or f'{len(news.renewed)} files'} renewed."
    )
    if news.kept:
        line += f" What you changed is kept: {', '.join(news.kept)}."
    return line


def progress(target: Path, checks: Path) -> list[str]:
    """One line for each lesson begun: a solved exercise, or a cell that the reader changed."""
    path = target / "progress.json"
    solved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    given = read_given(target)
    lines = []
    for lesson in sorted(target.glob("[0-9][0-9]*_*.ipynb")):
        if ".old" in lesson.name:
            continue
        number, _, subject = lesson.stem.partition("_")
        total = _exercises(checks / f"{subject}.py")
        done = len(solved.get(subject, []))
        changed = signature(lesson.name, lesson.read_bytes()) != given.get(lesson.name)
        if done or changed:
            lines.append(f"{number} {subject}: {done} of {total} exercises solved")
    return lines


def _exercises(checks: Path) -> int:
    """How many checks a file defines; counted in its text, so that the lab starts without torch."""
    if not checks.exists():
        return 0
    return len(re.findall(r"^@exercise\(", checks.read_text(encoding="utf-8"), re.M))
