"""The first page of the web edition: its words are those of README.md, so that they cannot differ.

pages/index.md says in which order: `<!-- README: … -->` stands for a part of it, or for the
paragraph that begins with these words.
"""

import re
from pathlib import Path

import yaml

from editions.colab import CITATION
from normcourse.lesson import Notebook

README = Path(__file__).resolve().parents[1] / "README.md"
ASKED = re.compile(r"<!-- README: (.+?) -->")
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"^!\[(.+?)\]\(notebooks/(\S+)\)$", re.M)
LESSON = re.compile(r"\| (\d\d)(\w?) \| \[(.+?)\]\(notebooks/(\S+?)\) \| (\d+) \| (.+?) \|")
DOOR = re.compile(r"^\| (learn|read|teach|maintain)(.*?) \| (.+?) \| (.+?) \|$", re.M)


def seen_from_pages(markdown: str) -> str:
    """Links into the folder of notebooks stay; what is no page is left as text."""

    def mend(match):
        words, address = match[1], match[2]
        inside = address.startswith("notebooks/")
        return f"[{words}]({address.removeprefix('notebooks/')})" if inside else words

    return LINK.sub(mend, markdown)


def description(readme: str) -> str:
    """What the course is, in the sentence under the README's title."""
    return readme.split("\n\n")[1]


def lessons(readme: str, notebooks: Path) -> list[tuple[str, ...]]:
    """The rows of the README's table whose lessons are there."""
    return [row for row in LESSON.findall(readme) if (notebooks / row[3]).is_file()]


def begin(readme: str, notebooks: Path) -> str:
    """The button to the first lesson, with what it costs."""
    number, _, _, file, _, _ = lessons(readme, notebooks)[0]
    words = f"Begin with lesson {number}"
    if time := Notebook(notebooks / file).minutes:
        words += f" <small>{time.core} minutes to read, nothing to install</small>"
    return f"[{words}]({file}){{.begin}}"


def made_by(citation: Path = CITATION) -> str:
    """The authors as CITATION.cff names them."""
    authors = yaml.safe_load(citation.read_text("utf-8"))["authors"]
    parts = ("given-names", "family-names", "name")
    names = [" ".join(author[part] for part in parts if part in author) for author in authors]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def picture(readme: str) -> str:
    """The first picture, with its alt text also below it."""
    alt, path = PICTURE.findall(readme)[0]
    caption = f'<p class="caption-of-picture" aria-hidden="true">{alt}</p>'
    return f"![{alt}]({path})\n\n{caption}"


def card(number: str, question: str, path: str, minutes: str, built: str) -> str:
    return f"- [{number} · {question}]({path}) {minutes} minutes\n\n  You build {built}.\n"


def cards(readme: str, notebooks: Path) -> str:
    """A card for each lesson of the main road, its side lessons folded in it."""
    lines = ["{.cards}"]
    rows = lessons(readme, notebooks)
    for number, letter, question, path, minutes, built in rows:
        if letter:
            continue
        lines.append(card(number, question, path, minutes, built))
        sides = [row for row in rows if row[0] == number and row[1]]
        if sides:
            lines += ["  <details><summary>Side lessons</summary>", ""]
        for _, side, asked, file, length, _ in sides:
            lines.append(f"  - [{number}{side} · {asked}]({file}) {length} minutes")
        if sides:
            lines += ["", "  </details>", ""]
    return "\n".join(lines)


def doors(readme: str) -> str:
    """What a reader, a learner, a lecturer and a maintainer call, and what they get."""
    found = DOOR.findall(readme)
    lines = [f"- **{verb}{how}**, {command}: {gets}." for verb, how, command, gets in found]
    return seen_from_pages("\n".join(["{.doors}", *lines]))


def front_page(template: str, readme: str, notebooks: Path) -> str:
    """The page as Markdown."""
    parts = {
        "title": readme.partition("\n")[0],
        "description": description(readme),
        "begin": begin(readme, notebooks),
        "made by": made_by(),
        "picture": picture(readme),
        "lessons": cards(readme, notebooks),
        "doors": doors(readme),
    }

    def part(match):
        if match[1] in parts:
            return parts[match[1]]
        (paragraph,) = (text for text in readme.split("\n\n") if text.startswith(match[1]))
        return seen_from_pages(paragraph)

    return ASKED.sub(part, template)
