"""`make deck NAME=monday FROM="02_layer_norm 05_dyt"`: begin a deck of one's own in my/lectures.

The file lists the slides of these course decks by their headings; whoever deletes a line leaves a
slide out. Nothing that is there already is overwritten.
"""

import argparse
import re
import sys
from pathlib import Path

from editions.extension.decks.lesson import head_and_slides
from editions.extension.decks.own import near, slides_in
from editions.extension.decks.spare import minutes
from tools.lectures import DECKS, MY_DECKS

FIRST = "02_layer_norm"
START = """\
---
logo:     # a picture beside this file, such as logo.jpg, for the slides that are your own
minutes:  # such as 45: the minutes of all slides then have to add up to it
lesson:   # such as {first}: slides without {{mine}} take cells of it, by the course's rules
---
% A line that begins with % is a comment. lectures/README.md says what a deck may say.
% Build this deck:  .venv/bin/python -m tools.lectures {file}
% With the pages and the PDFs:  make lectures

# {name}

:::{{mine}}
:::
:::{{notes}} 1
:::

{taken}
## A slide of my own

:::{{mine}}
:::

On it numbers are free, and a picture lies beside this file: write `![what it shows](photo.jpg)`.

:::{{notes}} 1
What I say, and how many minutes the slide takes.
:::
"""
TAKEN = """\
% {name} presumes: {presumes}
% Delete the line of a slide that you leave out; your own slides may stand between two such lists.
:::{{slides-of}} {name}
{headings}
:::
"""


def started(path: Path, sources: list[str], decks: Path) -> str:
    taken = "\n".join(taken_from(source, decks) for source in sources)
    file = f"my/lectures/{path.name}"
    return START.format(name=path.stem, file=file, first=sources[0], taken=taken)


def taken_from(source: str, decks: Path) -> str:
    """The slides of a course deck by their headings, without its title."""
    path = decks / f"{source}.md"
    if not path.is_file():
        known = [deck.stem for deck in sorted(decks.glob("[0-9]*.md"))]
        sys.exit(f"FROM={source}: there is no deck lectures/{source}.md{near(source, known)}")
    text = path.read_text("utf-8")
    _, *slides = slides_in(text).items()
    headings = [f"{heading}  % {minutes(slide):g} min" for heading, (_, slide) in slides]
    head, _ = head_and_slides(text)
    return TAKEN.format(name=source, presumes=head["presumes"], headings="\n".join(headings))


def main(arguments: list[str], folder: Path = MY_DECKS, decks: Path = DECKS) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("sources", nargs="*", default=[FIRST])
    options = parser.parse_args(arguments)
    if not re.fullmatch(r"[\w-]+", options.name):
        sys.exit(
            f"A deck's name has letters, digits, _ and -, not {options.name!r}: "
            "make deck NAME=monday"
        )
    path = folder / f"{options.name}.md"
    if path.exists():
        sys.exit(f"{path} is there already, and stays as it is: choose another NAME.")
    text = started(path, options.sources, decks)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    print(f"{path}: its first lines say how to go on")


if __name__ == "__main__":
    main(sys.argv[1:])
