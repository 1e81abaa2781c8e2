"""A deck shows: pictures and tables, a plan, a summary, something to do early, each answer.

Its polls do not have their answers all in the same place.
"""

import re
from pathlib import Path

import pytest

from tests.deck_rules import slides

ROOT = Path(__file__).parents[1]
DECKS = {path.stem: path for path in sorted((ROOT / "lectures").glob("[0-9]*.md"))}
MARKER = re.compile(r"^:::+ *\{([\w-]+)\}", re.M)
PICTURES = {"figure-of", "chart-of", "table-of", "interactive-of", "poll", "eq-of", "formula-of"}
CONSOLE = {"output-of"}
ONE_IN = 10
EARLY = 25  # minutes, before which the room does something itself
MINUTES = re.compile(r"^:::\{notes\} ([\d.]+)", re.M)
HANDS_ON = re.compile(r"\{poll\}|[Ii]n pairs|[Pp]airs of neighbours|with a neighbour|[Ii]n the lab")
EXERCISE = re.compile(r"^\d+\. ", re.M)
ANSWER = re.compile(r"^:answer: ([A-H])$", re.M)
ORDINALS = ["first", "second", "third", "fourth"]


def parts(body: str) -> set[str]:
    return set(MARKER.findall(body))


def is_console_alone(body: str) -> bool:
    """Output, and nothing beside it that is to be looked at: no picture, table, poll, formula."""
    looked_at = parts(body) & PICTURES or "$$" in body or re.search(r"^\|", body, re.M)
    return bool(parts(body) & CONSOLE) and not looked_at


def notes_of(body: str) -> str:
    return body.partition(":::{notes}")[2]


def minutes_of(body: str) -> float:
    return sum(map(float, MINUTES.findall(body)))


def first_hands_on(found) -> float | None:
    """The minute at which the room first does something."""
    passed = 0.0
    for _, body in found:
        if HANDS_ON.search(body):
            return passed
        passed += minutes_of(body)
    return None


def unanswered(body: str) -> list[str]:
    """The exercises of the last slide whose answer the notes do not name: `First: …`."""
    count = len(EXERCISE.findall(body))
    said = notes_of(body)
    return [each for each in ORDINALS[:count] if not re.search(rf"\b{each}: ", said, re.I)]


def faults(text: str):
    found = slides(text)
    console = [heading for heading, body in found if is_console_alone(body)]
    if len(console) * ONE_IN > len(found):
        yield f"{len(console)} of {len(found)} slides are console output alone: {console}"
    shown = set().union(*(parts(body) for _, body in found))
    yield from (f"no {{{wanted}}}" for wanted in ("plan", "summary") if wanted not in shown)
    letters = ANSWER.findall(text)
    if len(letters) > 1 and len(set(letters)) == 1:
        yield f"the answer of each poll is {letters[0]}: change the order of the options"
    start = first_hands_on(found)
    if start is None or start >= EARLY:
        yield f"the room does nothing itself before minute {EARLY}"
    yield from (f"the notes have no answer `{each}: …`" for each in unanswered(found[-1][1]))


@pytest.mark.parametrize("deck", DECKS)
def test_a_deck_shows(deck):
    assert list(faults(DECKS[deck].read_text("utf-8"))) == []


FINE = """---
minutes: 30
---
# A deck

:::{plan}
:::

:::{notes} 1
Go.
:::

## A result

:::{output-of} runs
:::

:::{chart-of} runs
:::

:::{summary}
:::

In pairs: what is it?

:::{notes} 26
Go.
:::

## Two exercises

1. One.
2. Two.

:::{notes} 3
First: it is one. Second: it is two.
:::
"""
PLANTED = {
    "console": (":::{chart-of} runs\n:::\n", "", "1 of 3 slides are console output alone"),
    "plan": (":::{plan}", ":::{then}", "no {plan}"),
    "summary": (":::{summary}", ":::{then}", "no {summary}"),
    "letters": (
        ":::{summary}",
        ":::{poll}\n:answer: B\n:::\n:::{poll}\n:answer: B\n:::\n:::{summary}",
        "the answer of each poll is B",
    ),
    "nothing to do": ("In pairs: w", "W", "nothing itself before minute 25"),
    "too late": ("## A result", "## Long\n\n:::{notes} 25\n:::\n\n## A result", "before minute 25"),
    "answer": ("Second: it", "It", "the notes have no answer `second: …`"),
}


def test_nothing_is_said_of_a_deck_that_shows():
    assert list(faults(FINE)) == []


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_shows(planted):
    there, instead, said = PLANTED[planted]
    assert there in FINE
    found = list(faults(FINE.replace(there, instead)))
    assert len(found) == 1
    assert said in found[0]
