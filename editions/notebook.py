"""What the web pages, the decks and their tests read from a notebook.

That is cells by id, their tags, what they printed, their pictures with alt texts, and the tagged
formulas.
"""

import base64
import difflib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TAG = r"EQ-[A-Z0-9]+(?:-[A-Z0-9]+)*"
STATED = re.compile(rf"\*\*\[({TAG})\]\*\*\n\$\$\n(.+?)\n\$\$", re.S)
DISPLAYED = re.compile(r"\$\$\n(.+?)\n\$\$", re.S)
TIME = re.compile(r"\*\*Time:\*\* core (\d+) minutes, with the exercises (\d+)")


class UnknownName(Exception):
    """A cell, a tag or a picture that the notebook does not have."""


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


def text_of(value: str | list[str]) -> str:
    """A text that a notebook may store whole or line by line."""
    return "".join(value)


def unescaped(markdown: str) -> str:
    """Markdown as it is read: without backslashes, without the stars of italics round it."""
    return re.sub(r"\\(.)", r"\1", markdown).strip("*")


class Notebook:
    def __init__(self, path: Path):
        self.path = Path(path)
        self.name = self.path.stem
        cells = json.loads(self.path.read_text("utf-8"))["cells"]
        self.cells = {cell["id"]: cell for cell in cells}

    def cell(self, name: str) -> dict:
        return self._find(name, self.cells, "cell")

    def tags(self, name: str) -> list[str]:
        return self.cell(name)["metadata"].get("tags", [])

    def source(self, name: str) -> str:
        return text_of(self.cell(name)["source"])

    def outputs(self, name: str) -> list[dict]:
        return self.cell(name).get("outputs", [])

    def printed(self, name: str) -> str:
        """What the cell wrote: its stream, and its exception as the last line."""
        parts = []
        for output in self.outputs(name):
            if output["output_type"] == "stream":
                parts.append(text_of(output["text"]))
            elif output["output_type"] == "error":
                parts.append(f"{output['ename']}: {output['evalue']}\n")
        return "".join(parts)

    def pictures(self, name: str) -> list[Picture]:
        return [picture(output) for output in self.outputs(name) if shows_picture(output)]

    def captions(self, name: str) -> list[bool]:
        """For each output of the cell whether it only repeats the alt text of a picture above."""
        alts = set()
        repeats = []
        for output in self.outputs(name):
            markdown = output.get("data", {}).get("text/markdown")
            repeats.append(markdown is not None and unescaped(text_of(markdown)) in alts)
            if shows_picture(output):
                alts.add(" ".join(picture(output).alt.split()))
        return repeats

    def formula(self, tag: str) -> str:
        return self._find(tag, self.formulas, "formula")

    def displayed(self, name: str) -> list[str]:
        """The LaTeX of each displayed formula of a cell, with a tag or without."""
        return DISPLAYED.findall(self.source(name))

    @cached_property
    def formulas(self) -> dict[str, str]:
        """The LaTeX that stands under each **[EQ-…]**."""
        return dict(STATED.findall("\n\n".join(self.markdown.values())))

    @cached_property
    def markdown(self) -> dict[str, str]:
        """The sources of the Markdown cells by id."""
        texts = self.cells.items()
        return {name: text_of(c["source"]) for name, c in texts if c["cell_type"] == "markdown"}

    @cached_property
    def title(self) -> str:
        first = next(iter(self.markdown.values()))
        return first.split("\n")[0].removeprefix("# ")

    @cached_property
    def minutes(self) -> Minutes | None:
        found = TIME.search(next(iter(self.markdown.values())))
        return found and Minutes(int(found[1]), int(found[2]))

    def _find(self, name: str, known: dict, kind: str):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise UnknownName(f"{self.path.name} has no {kind} {name!r}{hint}")
        return known[name]


def shows_picture(output: dict) -> bool:
    return "image/png" in output.get("data", {})


def picture(output: dict) -> Picture:
    metadata = output["metadata"]["image/png"]
    png = base64.b64decode(text_of(output["data"]["image/png"]))
    panels = tuple(tuple(box) for box in metadata.get("panels", []))
    return Picture(png, metadata["alt"], metadata["width"], panels)
