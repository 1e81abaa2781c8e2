"""Makes notebooks/reference/sources.md of sources.yaml, for `make pages`.

The five articles section by section, and where the course treats each.
"""

import re
from pathlib import Path

import yaml

from tools.reference import REFERENCE, anchor, equation_link, equations, headings, lessons
from tools.reference import row as table_row

DATA = REFERENCE / "sources.yaml"
PAGE = REFERENCE / "sources.md"
IN_WORDS = re.compile(r"\{([^{}]+)\}")  # {04}, {04a How steep can it be?}, {A154}, {EQ-RMS}
CLAIM = re.compile(r"A(\d+)")
HEAD = """# The five articles, and where the course treats them

The course began as five articles in Chinese. Who comes from one of them finds here where to start,
and section by section the lesson that treats the same thing.
What they claim, one by one, with a verdict: [claims.md](claims.md). Terms:
[glossary.md](glossary.md). Symbols: [notation.md](notation.md).
Made from `sources.yaml` by `make pages`: edit the data, not this page.

## If you come from one of the five articles

The lessons without a letter are the main road. Those with a letter are side lessons: read them when
your article leads you there.

"""
SECTIONS = """
NORM-DEEP names four publications, and the course goes back to them: Ioffe & Szegedy 2015, Ba et al.
2016, Zhang & Sennrich 2019, Xiong et al. 2020. The lessons' Sources name what else was read.

## Section by section

Where the headings of an article have no number, § counts them. In a link the number is that of the
lesson, and the words are its heading.
"""
SYMBOLS = """
## Their symbols and ours

"""
LEFT_OUT = """
## What was left out, and why

"""
CODE = """
## Their code, and what the check of lesson 03a says about it

Both listings were written again in our words, one fault each, and handed to the check of
{03a A failure you can see}, exercise 1 (`tests/course/test_claims.py`).

"""
ADVICE = """
## Their advice, answered

RMSNORM-ARTICLE, §8, says for which project RMSNorm is the choice.

"""


def sources() -> dict:
    return yaml.safe_load(DATA.read_text("utf-8"))


def target(place: str) -> tuple[Path | None, str]:
    """The file and the heading of a place; the file is None if there is none.

    A place is `04`, `04a How steep can it be?`, or a page: `course_map The layers in one table`.
    """
    name, _, heading = place.partition(" ")
    page = REFERENCE / f"{name}.md"
    return lessons().get(name, page if page.is_file() else None), heading


def link(place: str) -> str:
    """A link to a lesson, to a heading, to a claim or to an equation."""
    if CLAIM.fullmatch(place):
        return f"[{place}](claims.md#{place})"
    if place.startswith("EQ-"):
        return equation_link(place)
    path, heading = target(place)
    if path is None:
        return place
    if path.suffix == ".md":
        return f"[{heading}]({path.name}#{anchor(heading)})"
    # JupyterLab's name of a heading; editions/prepare.py knows the one on the web
    at = "#" + heading.replace(" ", "-") if heading else ""
    return f"[{place}](../{path.name}{at})"


def linked(text: str) -> str:
    """The text, with what stands in braces as links."""
    return IN_WORDS.sub(lambda match: link(match[1]), text)


def claims(ids: list[str]) -> str:
    """Links to claims; of three and more in a row, to the first and the last."""
    runs: list[list[str]] = []
    for name in ids:
        if runs and int(name[1:]) == int(runs[-1][-1][1:]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = []
    for run in runs:
        if len(run) > 2:
            parts.append(f"{link(run[0])} to {link(run[-1])}")
        else:
            parts.extend(map(link, run))
    return ", ".join(parts)


def texts(entry: object) -> list[str]:
    """All strings of an entry, at any depth."""
    if isinstance(entry, str):
        return [entry]
    if isinstance(entry, dict):
        entry = list(entry.values())
    return [text for item in entry for text in texts(item)] if isinstance(entry, list) else []


def places(data: dict) -> dict[str, list[str]]:
    """Each place that is linked to, and who names it: {place: [part of sources.yaml]}."""
    found: dict[str, list[str]] = {}

    def note(who: str, named: list[str]) -> None:
        for place in named:
            found.setdefault(place, []).append(who)

    for row in data["rows"]:
        note(f"{row['article']} {row['section']}", row.get("lessons", []))
    named = {
        **{f"article {article['name']}": article for article in data["articles"]},
        **{f"{row['article']} {row['section']}, left_out": row for row in data["rows"]},
        **{
            f"{part}, entry {n}": entry
            for part in ("symbols", "code", "advice")
            for n, entry in enumerate(data[part], 1)
        },
        "CODE in tools/sources.py": [CODE],
    }
    for who, entry in named.items():
        for text in texts(entry):
            note(who, IN_WORDS.findall(text))
    return found


def fault(place: str) -> str | None:
    """Why a place does not exist, or None. Claims are found by the test of links."""
    if CLAIM.fullmatch(place):
        return None
    if place.startswith("EQ-"):
        return None if place in equations() else f"equations.md has no {place}"
    path, heading = target(place)
    if path is None:
        return (
            f"there is no lesson {place.partition(' ')[0]}; if it went into another one, "
            f"name that one and its heading (there are {', '.join(lessons())})"
        )
    if heading and heading not in headings(path):
        return f"{path.name} has no heading {heading!r}; it has: {'; '.join(headings(path)[1:])}"
    return None


def table(head: list[str], rows: list[list[str]]) -> str:
    return table_row(head) + table_row(["---"] * len(head)) + "".join(map(table_row, rows))


def ways_in(data: dict) -> str:
    rows = []
    for article in data["articles"]:
        who = f"{article['title']}; {article['author']}; {article['kind']}"
        rows.append([article["name"], who, linked(article["start"]), linked(article["beside"])])
    return table(["we call it", "title, author", "start at", "side lessons"], rows)


def sections(data: dict, article: dict) -> str:
    rows = []
    for row in data["rows"]:
        if row["article"] == article["name"]:
            title = f"{row['section']} {article['sections'][row['section']]}"
            treated = ", ".join(map(link, row.get("lessons", []))) or "left out, below"
            rows.append([title, treated, claims(row["claims"])])
    return f"\n### {article['name']}\n\n" + table(["section", "lesson", "claims"], rows)


def left_out(data: dict) -> str:
    rows = [
        [f"{row['article']} {row['section']}", item["what"], linked(item["why"])]
        for row in data["rows"]
        for item in row.get("left_out", [])
    ]
    return table(["article, section", "what it says", "why it is no part of a lesson"], rows)


def symbols(data: dict) -> str:
    head, *rows = data["symbols"]
    return table(head, [list(map(linked, row)) for row in rows])


def code(data: dict) -> str:
    rows = [
        [item["article"], item["does"], f'"{item["says"]}": {linked(item["then"])}']
        for item in data["code"]
    ]
    return table(["article", "what its listing does", "what the check says"], rows)


def advice(data: dict) -> str:
    rows = [[item["says"], linked(item["found"])] for item in data["advice"]]
    return table(["it advises", "what the course found"], rows)


def page() -> str:
    data = sources()
    parts = [HEAD, ways_in(data), SECTIONS]
    parts += [sections(data, article) for article in data["articles"]]
    parts += [SYMBOLS, symbols(data), LEFT_OUT, left_out(data)]
    parts += [linked(CODE), code(data), ADVICE, advice(data)]
    return "".join(parts)


def made() -> dict[Path, str]:
    return {PAGE: page()}
