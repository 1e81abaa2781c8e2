"""What a reader wrote in a lesson, put into the lesson that an update brings.

Cells are compared by their ids. What was given to the reader is known by the signature of each of
its cells, so a cell with another text is the reader's.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from normcourse.lesson import Cell, Notebook

ANSWER = re.compile(r".+-stub|predict-\d+")  # made to be filled, whatever the course says in it
MADE = re.compile(r"^(?:def |class )?(\w+)(?=\(| = |:)", re.MULTILINE)  # what a stub is to make


@dataclass
class Merged:
    content: bytes  # the new lesson with the reader's cells
    placed: list[str] = field(default_factory=list)  # ids of the reader's cells that are in it
    left: list[str] = field(default_factory=list)  # ids of those that have no place in it


def signatures(content: bytes) -> dict[str, str]:
    """{id: signature} of a notebook's cells; ValueError for what is none, or has a cell twice."""
    return {name: signature(cell) for name, cell in _cells(_read(content)).items()}


def signature(cell: Cell) -> str:
    return hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()


def merge(mine: bytes, newest: bytes, given: dict[str, str]) -> Merged:
    """The newest lesson with what the reader wrote: answers, own cells, changes of other cells.

    An answer stays, also where the course has changed its stub, if the stub still asks for it.
    Another cell that both have changed is the course's, and the reader's is left over. An own cell
    comes behind the cell that it followed. ValueError where a notebook cannot be read.
    """
    notebook = _read(newest)
    result = list(_cells(notebook).values())
    found = Merged(b"")
    before = ""
    for name, cell in _cells(_read(mine)).items():
        names = [there.id for there in result]
        if signature(cell) == given.get(name) or not cell.source.strip():
            before = name if name in names else before
            continue
        if name in names and _may_replace(cell, result[names.index(name)], given):
            result[names.index(name)] = cell
        elif name in names or name in given:
            found.left.append(name)
            continue
        else:
            result.insert(names.index(before) + 1 if before else 0, cell)
        before = name
        found.placed.append(name)
    found.content = notebook.with_cells(result)
    return found


def _may_replace(mine: Cell, newest: Cell, given: dict[str, str]) -> bool:
    """Whether the reader's text goes before the course's in this cell."""
    name = newest.id
    if signature(newest) == given.get(name):
        return True
    return name in given and ANSWER.fullmatch(name) is not None and _answers(mine, newest)


def _answers(mine: Cell, stub: Cell) -> bool:
    """Whether it makes what the stub asks for; an update may have given its id to another one."""
    asked = MADE.findall(stub.source)
    return not asked or re.search(rf"\b{asked[-1]}\b", mine.source) is not None


def _read(content: bytes) -> Notebook:
    return Notebook(Path("lesson.ipynb"), content)


def _cells(notebook: Notebook) -> dict[str, Cell]:
    """The cells by their ids, in their order."""
    if "" in notebook.by_id:
        raise ValueError("a cell has no id")
    if len(notebook.by_id) < len(notebook.cells):
        raise ValueError("a cell is there twice")
    return notebook.by_id
