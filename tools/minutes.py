"""Minutes that a lesson needs: `python -m tools.minutes [LESSON …]`.

150 words a minute, 10 lines of visible code a minute, half a minute for each figure and for each
displayed formula, and the minutes that the exercises state. Folds (<details>) do not count, neither
do a cell tagged hide-input and the section Evidence. The answer of a prediction counts: on the web
it is a fold, which every reader opens. A blank line of code does not count; a comment does, for it
is read.

A lesson's first cell says "**Time:** core 45 minutes, with the exercises 90" (one line). A test
compares it with what is computed (10%, or 5 minutes); the README's table has the second number. The
minutes of an exercise are what a cold reader took.
"""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from normcourse.lesson import DISPLAYED, Notebook, outside_folds
from tools import reference

WORDS_A_MINUTE = 150
LINES_A_MINUTE = 10
FIGURE = 0.5  # minutes
FORMULA = 0.5
MOST = 60  # minutes of a lesson with its exercises; the table flags a longer one
NO_WORDS = re.compile(r"```.*?```|<[^>]*>|\]\([^)]*\)", re.S)  # programs, tags, addresses of links
INLINE = re.compile(r"\$[^$\n]+\$|`[^`\n]+`")  # read as one word
WORD = re.compile(r"\w[\w'’.-]*")
MARGIN = 0.1  # of what the tool computes, and 5 minutes at least: what a title may be off
MARGIN_MINUTES = 5


@dataclass
class Counted:
    """What a lesson has for its reader."""

    words: int
    lines: int
    figures: int
    formulas: int
    exercises: int  # minutes

    @property
    def core(self) -> float:
        looking = FIGURE * self.figures + FORMULA * self.formulas
        return self.words / WORDS_A_MINUTE + self.lines / LINES_A_MINUTE + looking

    @property
    def whole(self) -> float:
        return self.core + self.exercises


def count(lesson: Notebook) -> Counted:
    text = outside_folds(lesson.text)
    read = [cell for cell in lesson.code if cell not in lesson.evidence]
    visible = [cell for cell in read if "hide-input" not in cell.tags]
    return Counted(
        words=words(text),
        lines=sum(bool(line.strip()) for cell in visible for line in cell.source.splitlines()),
        figures=sum(output.has_picture for cell in read for output in cell.outputs),
        formulas=len(DISPLAYED.findall(text)),
        exercises=sum(exercise.minutes for exercise in lesson.exercises),
    )


def words(text: str) -> int:
    prose = NO_WORDS.sub(" ", DISPLAYED.sub(" ", text))
    return len(WORD.findall(INLINE.sub(" x ", prose)))


def fault(lesson: Notebook) -> str | None:
    """What is wrong with the minutes that a title states."""
    place = lesson.path.name
    said = lesson.minutes
    if said is None:
        return f"{place}: the title does not say its minutes in the words of tools/minutes.py"
    counted = count(lesson)
    pairs = {"core": (said.core, counted.core), "whole": (said.whole, counted.whole)}
    for name, (title, minutes) in pairs.items():
        if abs(minutes - title) > max(MARGIN * minutes, MARGIN_MINUTES):
            return (
                f"{place}: the title says {title} minutes ({name}), "
                f"tools/minutes.py computes {minutes:.0f}: "
                "write that into the title, and into the README's table"
            )
    return None


def row(lesson: Notebook) -> str:
    counted = count(lesson)
    said = lesson.minutes
    title = f"{said.core}, {said.whole}" if said else "none"
    long = f"  over {MOST}" if counted.whole > MOST else ""
    numbers = (counted.words, counted.lines, counted.figures, counted.formulas)
    minutes = f"{counted.core:6.0f} {counted.exercises:9} {counted.whole:6.0f}"
    return f"{lesson.name:24}" + "".join(f"{n:8}" for n in numbers) + f"{minutes}   {title}{long}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Minutes that a lesson needs.")
    parser.add_argument("paths", nargs="*", type=Path, help="default: every lesson")
    heads = ("words", "lines", "figures", "formulas")
    head = f"{'':24}" + "".join(f"{name:>8}" for name in heads)
    print(f"{head}  core exercises  whole   title")
    for path in parser.parse_args().paths or reference.lessons().values():
        print(row(Notebook(path)))


if __name__ == "__main__":
    main()
