"""Minutes that a lesson needs: `python -m tools.minutes [LESSON …]`.

Words at 110 a minute, 0.7 s for a visible token of code, 40 s for a displayed formula, 60 s for a
figure, all times 1.05 (see READERS), and what the exercises' lines state ("importance ●●●○○ ·
10 minutes"). What is folded with <details> counts; a cell tagged hide-input does not. A lesson's
first cell says "**Time:** core 45 minutes, with the exercises 90" (one line).

A test compares the title with what is computed (10 %, or 5 minutes); the README's table has the
second number. The minutes of an exercise are what a cold reader took.
"""

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

from tools.density import code_tokens

ROOT = Path(__file__).resolve().parents[1]
WORDS_A_MINUTE = 110
TOKEN_S = 0.7
FORMULA_S = 40
FIGURE_S = 60
READERS = 1.05  # 15 lessons read by three people took 1,623 minutes; without it this says 1,543
TITLE = re.compile(r"\*\*Time:\*\* core (\d+) minutes, with the exercises (\d+)\b")
EXERCISE = re.compile(r"importance [●○]+ · (\d+) minutes")
FORMULA = re.compile(r"\$\$.+?\$\$", re.S)
NO_WORDS = re.compile(r"```.*?```|<[^>]*>|\]\([^)]*\)", re.S)  # programs, tags, addresses of links
INLINE = re.compile(r"\$[^$\n]+\$|`[^`\n]+`")  # read as one word
WORD = re.compile(r"\w[\w'’.-]*")
BEFORE_HEADING = re.compile(r"^(?=#{2,6} )", re.M)
HEADING = re.compile(r"(#{2,6}) (.*)")
MARGIN = 0.1  # of what the tool computes, and 5 minutes at least: what a title may be off
MARGIN_MINUTES = 5


@dataclass
class Minutes:
    core: float
    exercises: float

    @property
    def whole(self) -> float:
        return self.core + self.exercises


def of_lesson(path: Path) -> Minutes:
    return of_cells(json.loads(path.read_text("utf-8"))["cells"])


def of_section(path: Path, anchor: str) -> Minutes | None:
    """What the section under this heading takes, with the sections in it; None: no such heading."""
    depth = 0
    inside: list[dict] = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        text = cell["cell_type"] == "markdown"
        for part in BEFORE_HEADING.split(source) if text else [source]:
            heading = HEADING.match(part) if text else None
            if heading and depth and len(heading[1]) <= depth:
                return of_cells(inside)
            if heading and heading[2].replace(" ", "-") == anchor:
                depth = len(heading[1])
            if depth:
                inside.append(cell | {"source": part})
    return of_cells(inside) if depth else None


def of_cells(cells: list[dict]) -> Minutes:
    text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    visible = [cell for cell in code if "hide-input" not in cell["metadata"].get("tags", [])]
    tokens = sum(len(code_tokens("".join(cell["source"]))) for cell in visible)
    outputs = [output for cell in code for output in cell["outputs"]]
    figures = sum("image/png" in output.get("data", {}) for output in outputs)
    seconds = TOKEN_S * tokens + FORMULA_S * len(FORMULA.findall(text)) + FIGURE_S * figures
    core = READERS * (words(text) / WORDS_A_MINUTE + seconds / 60)
    return Minutes(core, sum(int(minutes) for minutes in EXERCISE.findall(text)))


def words(text: str) -> int:
    prose = NO_WORDS.sub(" ", FORMULA.sub(" ", text))
    return len(WORD.findall(INLINE.sub(" x ", prose)))


def stated(path: Path) -> tuple[int, int] | None:
    """Core and whole in the lesson's title, or None where it does not say them in these words."""
    title = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
    match = TITLE.search(title)
    return (int(match[1]), int(match[2])) if match else None


def fault(path: Path) -> str | None:
    """What is wrong with the minutes that a title states."""
    said = stated(path)
    if said is None:
        return f"{path.name}: the title does not say its minutes in the words of tools/minutes.py"
    computed = of_lesson(path)
    for name, minutes, title in zip(
        ("core", "whole"), (computed.core, computed.whole), said, strict=True
    ):
        if abs(minutes - title) > max(MARGIN * minutes, MARGIN_MINUTES):
            return (
                f"{path.name}: the title says {title} minutes ({name}), "
                f"tools/minutes.py computes {minutes:.0f}: "
                "write that into the title, and into the README's table"
            )
    return None


def lessons() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Minutes that a lesson needs.")
    parser.add_argument("paths", nargs="*", type=Path, help="default: every lesson")
    for path in parser.parse_args().paths or lessons():
        minutes = of_lesson(path)
        said = stated(path)
        title = (
            f"title: {said[0]}, {said[1]}"
            if said
            else "title: not yet in the words of tools/minutes.py"
        )
        print(
            f"{path.stem:24} core {minutes.core:4.0f}, "
            f"with the exercises {minutes.whole:4.0f}; {title}"
        )


if __name__ == "__main__":
    main()
