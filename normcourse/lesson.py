"""A lesson as an object: the one reader of notebooks, for the editions, the tools and the tests.

    lesson = Notebook(Path("notebooks/02_layer_norm.ipynb"))
    lesson.title, lesson.minutes          # "02 · LayerNorm: …", Minutes(core=45, whole=90)
    lesson.cell("closed-figure").pictures # with their alt texts
    lesson.formula("EQ-LN")               # the LaTeX below **[EQ-LN]**
    lesson.exercises, lesson.predictions  # with their cells

It needs nothing but the standard library, so that `make lab` and the decks start without torch.

What a lesson has to look like to be read:

- An exercise is a line `**3. Title** · 10 minutes`; between title and minutes there may be more
  (`· difficulty ●●○○○`), and `· open` behind them says that many answers are right. Its answer
  belongs into the cell ex3-stub, and the cell ex3-check calls its check.
- A prediction is the cell predict-01. predict-01-answer computes what comes out, predict-01-read
  says it in words, predict-01-read-why explains it.
- A formula is displayed between lines `$$`; a line `**[EQ-LN]**` above it gives it a tag.
- A fold is a `<details>` with its `<summary>`.
- The section Evidence is the last one and begins with a Markdown cell that begins with
  `## Evidence`; its text is in folds and its code is tagged hide-input. Jupyter collapses it
  (COLLAPSED), and the web makes it one fold.
- The first cell says `**Time:** core 45 minutes, with the exercises 90`.
"""

import base64
import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TAG = r"EQ-[A-Z0-9]+(?:-[A-Z0-9]+)*"
STATED = re.compile(rf"\*\*\[({TAG})\]\*\*\n\$\$\n(.+?)\n\$\$", re.S)
DISPLAYED = re.compile(r"\$\$\n(.+?)\n\$\$", re.S)
TIME = re.compile(r"\*\*Time:\*\* core (\d+) minutes, with the exercises (\d+)\b")
EXERCISE = re.compile(
    r"^\*\*(?P<number>\d+)\. (?P<title>.+?)\*\* · (?:.* )?(?P<minutes>\d+) minutes(?P<more>.*)$",
    re.M,
)
AFTER_EXERCISE = re.compile(r"^#+ ", re.M)  # or another exercise
SOLUTION = re.compile(r"^(?:Solution|\[Solution).*$", re.M)
FOLD = re.compile(
    r"<details>\s*(?:<summary>\s*(?:<b>)?(?P<summary>.*?)(?:</b>)?\s*</summary>)?"
    r"(?P<inside>.*?)</details>",
    re.S,
)
CHECK = re.compile(r"\bcheck\w*\.(\w+)\(")
QUESTION = re.compile(r"predict-(\d+)")
ANSWER = re.compile(r"predict-?(\d*)-(?:answer|read).*")
EVIDENCE = "Evidence"
COLLAPSED = "jp-MarkdownHeadingCollapsed"  # metadata of a cell, which JupyterLab writes and reads
FINGERPRINT = re.compile(r"figure\b")


class UnknownName(Exception):
    """A cell or a tag that the notebook does not have."""


@dataclass(frozen=True)
class Picture:
    png: bytes
    alt: str
    width: int  # CSS pixels on the page; the picture itself has about twice as many
    panels: tuple[tuple[int, int, int, int], ...]  # left, top, right, bottom, in its own pixels


@dataclass(frozen=True)
class Minutes:
    core: int
    whole: int


def joined(text: str | list[str]) -> str:
    """A text that a notebook may store whole or line by line."""
    return "".join(text)


def unescaped(markdown: str) -> str:
    """Markdown as it is read: without backslashes, without the stars of italics round it."""
    return re.sub(r"\\(.)", r"\1", markdown).strip("*")


def outside_folds(markdown: str) -> str:
    return FOLD.sub("", markdown)


class Output:
    """What a cell wrote, in one piece; `stored` is what the file has."""

    def __init__(self, stored: dict):
        self.stored = stored
        self.data = {kind: joined(value) for kind, value in stored.get("data", {}).items()}
        self.has_picture = "image/png" in self.data
        self.is_caption = set(self.data) == {"text/markdown"}  # written below a picture

    @property
    def printed(self) -> str:
        """A stream, or an exception as one line."""
        if self.stored["output_type"] == "error":
            return f"{self.stored['ename']}: {self.stored['evalue']}\n"
        return joined(self.stored.get("text", ""))

    @property
    def texts(self) -> list[str]:
        """All that a reader can read of it."""
        found = [joined(self.stored.get(key, "")) for key in ("text", "evalue")]
        found += self.stored.get("traceback", [])
        return found + [text for kind, text in self.data.items() if kind.startswith("text/")]

    @property
    def picture(self) -> Picture:
        about = self.stored["metadata"]["image/png"]
        panels = tuple(tuple(box) for box in about.get("panels", []))
        return Picture(base64.b64decode(self.data["image/png"]), self.alt, about["width"], panels)

    @property
    def alt(self) -> str:
        metadata = self.stored.get("metadata", {})
        return metadata.get("image/png", {}).get("alt") or metadata.get("alt") or ""

    @property
    def fingerprint(self) -> str:
        """What figures.show says in words of a figure; empty for what is none."""
        text = self.data.get("text/plain", "")
        return text if FINGERPRINT.match(text) else ""


class Cell:
    """A cell, with its text in one piece; `stored` is what the file has."""

    def __init__(self, stored: dict):
        self.stored = stored
        self.id = str(stored.get("id", ""))
        self.cell_type: str = stored["cell_type"]
        self.source = joined(stored["source"])
        self.metadata: dict = stored.get("metadata", {})
        self.tags: list[str] = self.metadata.get("tags", [])
        self.outputs = [Output(each) for each in stored.get("outputs", [])]

    @property
    def printed(self) -> str:
        """What the cell wrote: its stream, and its exception as the last line."""
        return "".join(output.printed for output in self.outputs)

    @property
    def pictures(self) -> list[Picture]:
        return [output.picture for output in self.outputs if output.has_picture]

    @property
    def captions(self) -> list[bool]:
        """For each output whether it only repeats the alt text of a picture above."""
        alts = set()
        repeats = []
        for output in self.outputs:
            words = unescaped(output.data["text/markdown"]) if output.is_caption else None
            repeats.append(words in alts)
            if output.has_picture:
                alts.add(" ".join(output.alt.split()))
        return repeats

    @property
    def displayed(self) -> list[str]:
        """The LaTeX of each displayed formula, with a tag or without."""
        return DISPLAYED.findall(self.source)

    @property
    def checks(self) -> set[str]:
        """The names of the exercise checks that the cell calls."""
        return set(CHECK.findall(self.source))

    def changed(self, **stored) -> "Cell":
        return Cell(self.stored | stored)


@dataclass(frozen=True, eq=False)
class Exercise:
    number: int
    title: str
    minutes: int
    is_open: bool  # many answers are right, and a person has to look
    heading: str  # its line
    statement: str  # what follows, without folds and the line of the solution
    hints: str  # its folds
    cell: Cell  # that states it
    stub: Cell | None
    check: Cell | None

    @property
    def checks(self) -> set[str]:
        return self.check.checks if self.check else set()


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer to a question: from the cell that computes it to the last that reads it."""

    cells: list[Cell]
    end: int  # the place of the cell behind them

    @property
    def number(self) -> str:
        return number_of_answer(self.cells[0].id) or ""


def number_of_answer(cell: str | None) -> str | None:
    """`01` for the cells predict-01-answer and predict-01-read; empty for predict-answer."""
    found = ANSWER.fullmatch(cell or "")
    return found and found[1]


def answers(cells: Iterable[str | None]) -> list[range]:
    """For each prediction the places of its answer among the names: its first cell to its last."""
    spans: dict[str, range] = {}
    for place, cell in enumerate(cells):
        number = number_of_answer(cell)
        if number is not None:
            first = spans[number].start if number in spans else place
            spans[number] = range(first, place + 1)
    return list(spans.values())


def begins_evidence(cell_type: str, source: str) -> bool:
    return cell_type == "markdown" and source.partition("\n")[0].strip() == f"## {EVIDENCE}"


class Notebook:
    """A lesson, its solutions, or a reader's copy of it.

    Raises:
        ValueError: the file, or the content where it is given, is no notebook.
    """

    def __init__(self, path: Path, content: str | bytes | None = None):
        self.path = Path(path)
        self.name = self.path.stem
        try:
            self.stored = json.loads(self.path.read_text("utf-8") if content is None else content)
            self.cells = [Cell(stored) for stored in self.stored["cells"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.path.name} is no notebook: {error!r}") from None

    @property
    def number(self) -> str:
        """03 or 02a."""
        return self.name.partition("_")[0]

    @property
    def kind(self) -> str:
        if not re.fullmatch(r"\d\d[a-z]?", self.number):
            return "other"
        return "solutions" if self.path.parent.name == "solutions" else "lesson"

    def with_cells(self, cells: Iterable[Cell]) -> bytes:
        """The content of a file that has these cells instead."""
        notebook = self.stored | {"cells": [cell.stored for cell in cells]}
        return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()

    @cached_property
    def code(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.cell_type == "code"]

    @cached_property
    def markdown(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.cell_type == "markdown"]

    @cached_property
    def text(self) -> str:
        """All Markdown."""
        return "\n\n".join(cell.source for cell in self.markdown)

    @cached_property
    def by_id(self) -> dict[str, Cell]:
        return {cell.id: cell for cell in self.cells}

    def cell(self, name: str) -> Cell:
        return self._find(name, self.by_id, "cell")

    def formula(self, tag: str) -> str:
        return self._find(tag, self.formulas, "formula")

    @cached_property
    def formulas(self) -> dict[str, str]:
        """The LaTeX that stands under each **[EQ-…]**."""
        return dict(STATED.findall(self.text))

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def minutes(self) -> Minutes | None:
        """What the first cell says."""
        found = TIME.search(self.markdown[0].source) if self.markdown else None
        return found and Minutes(int(found[1]), int(found[2]))

    @cached_property
    def exercises(self) -> list[Exercise]:
        return [
            self._exercise(cell, heading)
            for cell in self.markdown
            for heading in EXERCISE.finditer(cell.source)
        ]

    def _exercise(self, cell: Cell, heading: re.Match) -> Exercise:
        rest = cell.source[heading.end() :]
        ends = (pattern.search(rest) for pattern in (EXERCISE, AFTER_EXERCISE))
        text = rest[: min((end.start() for end in ends if end), default=len(rest))]
        number = int(heading["number"])
        return Exercise(
            number,
            heading["title"],
            int(heading["minutes"]),
            bool(re.search(r"\bopen\b", heading["more"])),
            heading[0],
            SOLUTION.sub("", outside_folds(text)),
            "\n\n".join(fold[0] for fold in FOLD.finditer(text)),
            cell,
            self.by_id.get(f"ex{number}-stub"),
            self.by_id.get(f"ex{number}-check"),
        )

    @cached_property
    def predictions(self) -> list[Prediction]:
        return [
            Prediction(self.cells[span.start : span.stop], span.stop)
            for span in answers(cell.id for cell in self.cells)
        ]

    @cached_property
    def evidence(self) -> list[Cell]:
        """The last section, from its heading; empty where a lesson has none."""
        starts = [begins_evidence(cell.cell_type, cell.source) for cell in self.cells]
        return self.cells[starts.index(True) :] if any(starts) else []

    def _find(self, name: str, known: dict, kind: str):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise UnknownName(f"{self.path.name} has no {kind} {name!r}{hint}")
        return known[name]
