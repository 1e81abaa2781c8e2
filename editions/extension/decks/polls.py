"""Which option of a poll the lesson decides for."""

import re

from editions.extension.decks.numbers import value_of

NEAR = 1.5  # a number this many times as large, or as small, is another one
SMALL = 0.1  # beside which nothing is 0


def nearest(found: list[str], options: list[str]) -> int | None:
    """The option whose number is nearest to what was found.

    Of two numbers that were found, their ratio counts: the second by the first. An option without a
    number stands for all others, as `much less than these`.
    """
    values = _numbers(found)
    if len(values) < len(found):
        return None
    value = values[0] if len(values) == 1 else values[1] / values[0]
    stated = _numbers(options)
    without = [number for number in range(len(options)) if number not in stated]
    best = min(stated, key=lambda number: abs(stated[number] - value))
    if alike(stated[best], value):
        return best
    return without[0] if len(without) == 1 else None


def _numbers(texts: list[str]) -> dict[int, float]:
    """{place: the number in the text} for those texts that hold one."""
    values = enumerate(map(value_of, texts))
    return {place: value for place, value in values if value is not None}


def alike(option: float, value: float) -> bool:
    if min(abs(option), abs(value)) < SMALL * max(abs(option), abs(value), 1e-300):
        return max(abs(option), abs(value)) < SMALL and 0.0 in (option, value)
    return 1 / NEAR <= option / value <= NEAR


def described(text: str, patterns: list[str]) -> int | None:
    """The one option whose pattern is in the text; None for several, or for none."""
    fitting = [
        number for number, pattern in enumerate(patterns) if pattern and re.search(pattern, text)
    ]
    return fitting[0] if len(fitting) == 1 else None
