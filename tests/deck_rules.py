"""What the formulas on the slides state is true: calculated, or tried at random points."""

import re
from pathlib import Path

from tests.equations import lines

ROOT = Path(__file__).parents[1]
DECKS = sorted((ROOT / "lectures").glob("[0-9]*.md"))
BINDINGS = "tests/equations/bindings_lines.py"
SLIDE = re.compile(r"^##? (.+)\n((?:(?!##? ).*\n?)*)", re.M)
NUMBERS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:,\s*[-+]?\d+(?:\.\d+)?)*")


def slides(text: str):
    """(heading, what stands on the slide and in its notes)."""
    return SLIDE.findall(re.sub(r"\A---.*?---\n", "", text, flags=re.S))


def place(deck: str, heading: str) -> str:
    """What bindings_lines.py calls a slide: lectures/03 RMSNorm by hand."""
    return f"lectures/{deck.partition('_')[0]} {heading}"


def faults(deck: str, text: str):
    for heading, body in slides(text):
        for formula in lines.formulas(heading, body):
            shown = " ".join(formula.source.split())
            if NUMBERS.fullmatch(formula.source):
                yield (
                    f"{deck}, {heading}: ${shown}$ is a number without a formula: write how it "
                    "comes, $\\sqrt{9} = 3$, or what has it, $w = 3$; or write it without dollars"
                )
                continue
            try:
                found = lines.verdicts(place(deck, heading), formula)
            except SyntaxError:
                if formula.displayed:
                    yield f"{deck}, {heading}: $${shown}$$ has one side: write left = right"
                continue
            for verdict in found:
                if verdict.wrong:
                    yield f"{deck}, {heading}: ${shown}$ {verdict.wrong}"
                elif formula.displayed and not verdict.known:
                    missing = lines.missing(place(deck, heading), formula, verdict.relation)
                    yield (
                        f"{deck}, {heading}: nobody evaluates ${shown}$: add "
                        f'@lines("{place(deck, heading)}") to a binding in {BINDINGS} that has '
                        f"{missing}"
                    )
