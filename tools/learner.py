"""The learner's copy of the lessons in my/: made, renewed with the course, and counted.

A file that the reader changed is never overwritten: when the course has a newer lesson, the
reader's cells are put into it (tools/merge.py), and what has no place there is kept in
NAME.old.ipynb. The reader's own records (my/records/own) are not touched at all. What stands in
the way (a full disk, a damaged file) becomes a sentence, and the rest is done.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from editions import moved
from editions.predictions import folded
from normcourse import atomic
from normcourse.lesson import Cell, Notebook
from tools import files, merge, withheld

GIVEN = ".given.json"  # in the copy: {file: the signature of what was given to the reader}
CELLS = ".cells.json"  # in the copy: {lesson: the signature of each cell as it was given}
SOLVED = "progress.json"  # in the copy: {lesson: its solved exercises}
LISTS = {
    GIVEN: (str, "which lessons you were given"),
    CELLS: (dict, "what stood in their cells"),
    SOLVED: (list, "what you solved"),
}
PROGRESS = "progress.md"
OWN = "records/own"
SKIPPED = {".ipynb_checkpoints", "__pycache__"}
CURES = {  # of what the system may say when a file is to be written
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EROFS: "move the clone to where you may write",
    errno.EACCES: "give yourself the right to write there",
    errno.EPERM: "give yourself the right to write there",
    errno.EEXIST: "rename the file that stands where a folder has to be",
    errno.ENOTDIR: "rename the file that stands where a folder has to be",
}


@dataclass
class News:
    """What renew did and could not do."""

    renewed: list[str] = field(default_factory=list)  # files that are newer now
    kept: list[str] = field(default_factory=list)  # names under which the reader's own are kept
    merged: dict[str, int] = field(default_factory=dict)  # {lesson: how many own cells are in it}
    # {name of the kept lesson: its cells that have no place in the new one}
    left: dict[str, list[str]] = field(default_factory=dict)
    # lessons that the course no longer has: the reader's copy, as it is called now
    gone: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)  # a sentence for each damaged course notebook
    unwritten: dict[str, int] = field(default_factory=dict)  # {file: the number of the error}


def renew(source: Path, target: Path, solutions: bool = True) -> News:
    """Copy the course's files into the learner's copy, with the solutions or without.

    A file of the learner's is left alone unless the course's is newer.
    """
    given = read_list(target / GIVEN)
    cells = read_list(target / CELLS)
    news = News()
    paths = [path for path in sorted(source.rglob("*")) if path.is_file()]
    course = {path.relative_to(source).as_posix(): path for path in paths}
    if not solutions:
        course = {name: course[name] for name in course if not name.startswith(withheld.FOLDER)}
    for name, path in course.items():
        if SKIPPED & set(path.parts) or name.startswith(OWN):
            continue
        try:
            content = learners_form(path, solutions)
        except ValueError:
            news.unread.append(files.no_notebook(path))
            continue
        with _noting(news, name):
            _renew_one(target, name, content, given, cells, news)
    for name in [*given, *(f"{stem}.ipynb" for stem in moved.MOVED)]:
        if name not in course:
            with _noting(news, name):
                if name.startswith(withheld.FOLDER):
                    _take_back(target, name, given)
                _retire(target, name, given, news)
    with _noting(news, OWN):
        (target / OWN).mkdir(parents=True, exist_ok=True)
    with _noting(news, GIVEN):
        atomic.write(target / GIVEN, json.dumps(given, indent=1) + "\n")
        atomic.write(target / CELLS, json.dumps(cells, indent=1) + "\n")
    return news


@contextmanager
def _noting(news: News, name: str) -> Iterator[None]:
    """A file that cannot be written is noted; the others follow."""
    try:
        yield
    except OSError as error:
        news.unwritten[name] = error.errno or errno.EIO


def _renew_one(
    target: Path, name: str, content: bytes, given: dict, cells: dict, news: News
) -> None:
    """Give the reader this file, unless it is the one that was given already."""
    mine = target / name
    newest = signature(name, content)
    if not mine.exists():
        atomic.write(mine, content)
    elif not mine.is_file():  # a folder in its place
        _keep_and_write(mine, content, target, news)
    elif given.get(name) != newest:
        if signature(name, mine.read_bytes()) in (given.get(name), newest):
            atomic.write(mine, content)
        else:
            _merge(mine, content, target, cells.get(name), news)
        if name in given:
            news.renewed.append(name)
    given[name] = newest
    if name.endswith(".ipynb"):
        cells[name] = merge.signatures(content)


def _merge(mine: Path, content: bytes, target: Path, given: dict | None, news: News) -> None:
    """The new lesson with the reader's cells; the old one is kept where it has more of them."""
    name = mine.relative_to(target).as_posix()
    try:
        found = merge.merge(mine.read_bytes(), content, given or {}) if given else None
    except ValueError:  # a notebook that another program wrote, or none
        found = None
    if found is None:
        _keep_and_write(mine, content, target, news)
        return
    if found.left:
        _keep_and_write(mine, found.content, target, news)
        news.left[news.kept[-1]] = found.left
    else:
        atomic.write(mine, found.content)
    if found.placed:
        news.merged[name] = len(found.placed)


def _keep_and_write(mine: Path, content: bytes, target: Path, news: News) -> None:
    """The reader's own gets another name; it has its own again if the new one cannot be written."""
    old = _free_name(mine)
    mine.rename(old)
    try:
        atomic.write(mine, content)
    except OSError:
        old.rename(mine)
        raise
    news.kept.append(old.relative_to(target).as_posix())


def _take_back(target: Path, name: str, given: dict) -> None:
    """A solution goes, unless the reader has written into it."""
    mine = target / name
    if mine.is_file() and signature(name, mine.read_bytes()) == given.get(name):
        mine.unlink()
        with suppress(OSError):  # others are still in it
            mine.parent.rmdir()


def _retire(target: Path, name: str, given: dict, news: News) -> None:
    """A file that the course no longer has: the reader's copy is kept, answers and all."""
    mine = target / name
    stays = name
    if mine.stem in moved.MOVED and mine.exists():
        old = _free_name(mine)
        mine.rename(old)
        stays = old.relative_to(target).as_posix()
    if re.match(r"\d\d", name) and (target / stays).exists():
        news.gone[name] = stays
    given.pop(name, None)


def read_list(path: Path) -> dict:
    """One of LISTS as it stands in the file; empty where there is none, or a damaged one."""
    try:
        return _read_list(path)
    except (OSError, ValueError):
        return {}


def _read_list(path: Path) -> dict:
    """OSError for a file that cannot be read, ValueError for one that holds something else."""
    found = json.loads(path.read_text(encoding="utf-8"))
    kind, _ = LISTS[path.name]
    if not isinstance(found, dict) or not all(isinstance(value, kind) for value in found.values()):
        raise ValueError("another kind of list")
    return found


def set_aside_damaged(target: Path) -> list[str]:
    """Give a damaged list another name, so that a new one can begin; a sentence for each."""
    lines = []
    for name, (_, what) in LISTS.items():
        path = target / name
        try:
            _read_list(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            try:
                moved = path.rename(_free_name(path, "damaged"))
            except OSError as error:
                kept = f"itself ({error.strerror})"
            else:
                kept = _shown(target, moved.name)
            lines.append(
                f"{_shown(target, name)}, the list of {what}, is damaged: it is kept as {kept}, "
                "and a new one begins."
            )
    return lines


def learners_form(path: Path, solutions: bool = True) -> bytes:
    """A file as the reader gets it.

    A notebook comes without outputs; its drawing cells are collapsed, and the words that answer a
    prediction are in a fold. Without solutions it does not lead to them.
    """
    if path.suffix != ".ipynb":
        return path.read_bytes()
    notebook = Notebook(path)
    cells = map(without_outputs, notebook.cells)
    if not solutions:
        cells = map(withheld.withhold, cells)
    answers = {cell.id for prediction in notebook.predictions for cell in prediction.cells}
    return notebook.with_cells(_closed(cell, cell.id in answers) for cell in cells)


def without_outputs(cell: Cell) -> Cell:
    return cell.changed(outputs=[], execution_count=None) if cell.cell_type == "code" else cell


def _closed(cell: Cell, answers: bool) -> Cell:
    """A drawing cell with its code hidden; words that answer a prediction in a fold."""
    if "hide-input" in cell.tags:
        hidden = cell.metadata.get("jupyter", {}) | {"source_hidden": True}
        return cell.changed(metadata=cell.metadata | {"jupyter": hidden})
    if answers and cell.cell_type == "markdown":
        return cell.changed(source=folded(cell.id, cell.source))
    return cell


def signature(name: str, content: bytes) -> str:
    """What a reader can change: of a notebook the cells' texts, not what running it writes."""
    if name.endswith(".ipynb"):
        with suppress(ValueError):  # damaged: it is what it is
            cells = Notebook(Path(name), content).cells
            content = json.dumps([[cell.cell_type, cell.source] for cell in cells]).encode()
    return hashlib.sha256(content).hexdigest()


def _free_name(path: Path, word: str = "old") -> Path:
    """NAME.old.ipynb, or NAME.old2.ipynb where that one is taken."""
    count = 1
    while True:
        free = path.with_name(f"{path.stem}.{word}{count if count > 1 else ''}{path.suffix}")
        if not free.exists():
            return free
        count += 1


def announcement(news: News, source: Path, target: Path) -> list[str]:
    """A sentence for each thing that the reader should know; none when nothing is newer."""
    lines = list(news.unread)
    if news.renewed:
        lessons = [Path(name).stem for name in news.renewed if re.match(r"\d\d", name)]
        what = ", ".join(lessons) or f"{len(news.renewed)} files"
        lines.append(f"A newer edition of the course: {what} renewed.")
    if news.merged:
        counts = (f"{_shown(target, name)} ({count})" for name, count in news.merged.items())
        lines.append(f"The cells that you wrote are in it: {', '.join(counts)}.")
    for name, cells in news.left.items():
        lines.append(f"No place in it have {', '.join(cells)}: kept in {_shown(target, name)}.")
    kept = [_shown(target, name) for name in news.kept if name not in news.left]
    if kept:
        lines.append(f"What you changed is kept: {', '.join(kept)}.")
    lines += [_where_it_went(name, news.gone[name], source, target) for name in news.gone]
    return lines + list(_unwritten(news, target))


def _where_it_went(name: str, stays: str, source: Path, target: Path) -> str:
    stem = Path(name).stem
    found = moved.goals(stem, source)
    subject = f"its subject is in {' and '.join(found)} now" if found else "no other has its place"
    return (
        f"The course has no lesson {stem} any more; {subject}. "
        f"Yours is kept, with your answers: {_shown(target, stays)}."
    )


def _unwritten(news: News, target: Path) -> Iterator[str]:
    """A sentence for each cure."""
    found: dict[str, list[str]] = {}
    for name, number in news.unwritten.items():
        found.setdefault(CURES.get(number, "mend that"), []).append(name)
    for cure, names in found.items():
        more = f" and {len(names) - 1} more files" if len(names) > 1 else ""
        why = os.strerror(news.unwritten[names[0]])
        yield (
            f"{_shown(target, names[0])}{more} could not be written ({why}): "
            f"{cure}, and `make lab` goes on. Nothing of yours is lost."
        )


def _shown(target: Path, name: str) -> str:
    return f"{target.name}/{name}"


def progress(target: Path, source: Path) -> list[str]:
    """One line for each lesson begun: a solved exercise, or a cell that the reader changed.

    What was solved in a lesson that the course has no more counts in the lesson that has its
    exercise now, under the same name.
    """
    given = read_list(target / GIVEN)
    lines = []
    for lesson in _lessons(target):
        done = _done(target, lesson, source)
        newest = given.get(lesson.name)  # None: the list could not be written
        changed = newest and signature(lesson.name, lesson.read_bytes()) != newest
        if done or changed:
            asked = len(_asked(lesson, source))
            what = lesson.stem.replace("_", " ", 1)
            lines.append(f"{what}: {len(done)} of {asked} exercises solved")
    return lines


def _lessons(target: Path) -> list[Path]:
    found = sorted(target.glob("[0-9][0-9]*_*.ipynb"))
    return [path for path in found if ".old" not in path.name and path.is_file()]


def _asked(lesson: Path, source: Path) -> set[str]:
    """The checks that the course's lesson calls; the reader may have changed the copy."""
    try:
        exercises = Notebook(source / lesson.name).exercises
    except (OSError, ValueError):  # it is the reader's own, or it is damaged
        return set()
    return {name for exercise in exercises for name in exercise.checks}


def _done(target: Path, lesson: Path, source: Path) -> set[str]:
    solved = read_list(target / SOLVED)
    number, _, subject = lesson.stem.partition("_")
    subjects = {subject, *(old.partition("_")[2] for old in moved.earlier(number))}
    return _asked(lesson, source) & {name for each in subjects for name in solved.get(each, [])}


def write_progress_page(target: Path, source: Path) -> None:
    """PROGRESS in the copy: the lessons with what is solved, and links that the lab opens."""
    rows = ["| lesson | exercises solved |", "| --- | --- |"]
    for lesson in _lessons(target):
        count = f"{len(_done(target, lesson, source))} of {len(_asked(lesson, source))}"
        rows.append(f"| [{lesson.stem.replace('_', ' ')}]({lesson.name}) | {count} |")
    words = ["# Your progress", "", "As it was when the lab was started.", "", *rows, ""]
    atomic.write(target / PROGRESS, "\n".join(words))
