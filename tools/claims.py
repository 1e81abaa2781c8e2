"""Makes notebooks/reference/claims.md of claims.yaml, for `make pages`."""

from pathlib import Path

import yaml

from tools.reference import REFERENCE, equation_link, lessons
from tools.reference import row as table_row

DATA = REFERENCE / "claims.yaml"
PAGE = REFERENCE / "claims.md"
VERDICTS = {
    "correct": "it holds as it is said",
    "imprecise": "true in spirit, or under conditions that are not stated",
    "wrong": "there is a counterexample",
    "unverifiable": "nothing that runs here decides it",
    "prediction": "the article expects it; the course tried",
}
HEAD = """# The articles' claims

The five articles that this course is made from make {count} checkable claims;
[sources.md](sources.md) says which articles they are. Here each claim stands in our words, with a
verdict, with what holds in its place, and with the place where the course shows or tests it.
Lessons cite a claim by its id.
Made from `claims.yaml` by `make pages`: edit the data, not this page.

| verdict | meaning | claims |
| --- | --- | --- |
"""
TABLE = """
## {title}

| id | where | what is said | verdict | what holds | shown |
| --- | --- | --- | --- | --- | --- |
"""
PARTS = {  # the first id of each part: its title
    "A01": "The blog on DyT and DyISRU",
    "A31": "The derivations appended to it",
    "A99": "Normalization in depth",
    "A121": "The RMSNorm article",
    "A171": "The section on saturation and explosion",
}


def claims() -> list[dict]:
    return yaml.safe_load(DATA.read_text("utf-8"))


def link(place: str) -> str:
    """A link to a cell (`03a half-sums`), an equation (EQ-RMS) or a test (tests/…::name)."""
    if place.startswith("EQ-"):
        return equation_link(place)
    if place.startswith("tests/"):
        path, _, name = place.partition("::")
        return f"[`{name}`](../../{path})"
    number, _, cell = place.partition(" ")
    lesson = lessons().get(number)
    return f"[{number} `{cell}`](../{lesson.name})" if lesson else f"{number} `{cell}`"


def row(claim: dict) -> str:
    verdict = claim.get("detail", claim["verdict"])
    holds = claim.get("correction", "")
    shown = ", ".join(link(place) for place in claim["shown"])
    if "why_not" in claim:
        shown = f"{shown}; not asserted: {claim['why_not']}" if shown else claim["why_not"]
    name = f'<a id="{claim["id"]}"></a>{claim["id"]}'
    return table_row([name, claim["where"], claim["said"], verdict, holds, shown])


def page() -> str:
    found = claims()
    parts = [HEAD.format(count=len(found))]
    for verdict, meaning in VERDICTS.items():
        count = sum(claim["verdict"] == verdict for claim in found)
        parts.append(f"| {verdict} | {meaning} | {count} |\n")
    for claim in found:
        if claim["id"] in PARTS:
            parts.append(TABLE.format(title=PARTS[claim["id"]]))
        parts.append(row(claim))
    return "".join(parts)


def made() -> dict[Path, str]:
    return {PAGE: page()}
