"""Numbers in the words of a deck: `0.33`, `23 to 37 %`, `about one tenth`, `twelve`, `nothing`."""

import re
from collections.abc import Iterator

FIRST = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
FIRST += ["eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"]
UNITS = {word: float(value) for value, word in enumerate([*FIRST, "eighteen", "nineteen"], 1)}
DECADES = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
TENS = {word: 10.0 * value for value, word in enumerate(DECADES, 2)}
LARGE = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
EQUAL = ["third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
PARTS = {word: float(value) for value, word in enumerate(EQUAL, 3)}
PARTS |= {"half": 2.0, "halve": 2.0, "fourth": 4.0, "hundredth": 100.0, "thousandth": 1000.0}
WHOLE = {"nothing": 0.0, "none": 0.0, "nearly all": 1.0, "half": 0.5, "once": 1.0, "twice": 2.0}

DIGITS = r"(?<![\w.])[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
RANGE = re.compile(rf"({DIGITS})(?: (?:to|and) ({DIGITS}))?( ?%)?")
FRACTION = re.compile(r"\\t?frac\{(\d+)\}\{(\d+)\}")
PART = re.compile(rf"\b({'|'.join(UNITS)}|an?)[ -]({'|'.join(PARTS)})s?\b(?! power)", re.I)
UNIT = "|".join(UNITS)
TEN = rf"(?P<tens>{'|'.join(TENS)})(?:-(?P<unit>{UNIT}))?"
WORD = re.compile(rf"\b(?:{TEN}|(?P<one>{UNIT}))(?: (?P<large>{'|'.join(LARGE)}))?\b", re.I)


def digits(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def in_digits(text: str) -> set[float]:
    r"""The numbers of a text, and what its fractions \frac{3}{4} come to."""
    found = {abs(digits(number)) for number in re.findall(DIGITS, text)}
    return found | {float(above) / float(below) for above, below in FRACTION.findall(text)}


def parts(text: str) -> Iterator[tuple[str, float]]:
    """(words, value) of `nine tenths`, `a fifth`."""
    for match in PART.finditer(text):
        yield match[0], UNITS.get(match[1].lower(), 1.0) / PARTS[match[2].lower()]


def words(text: str) -> Iterator[tuple[str, float]]:
    """(words, value) of `twelve`, `sixty-four`, `four thousand`; parts are none of them."""
    for match in WORD.finditer(PART.sub(" ", text)):
        found = {name: (word or "").lower() for name, word in match.groupdict().items()}
        value = TENS.get(found["tens"], 0.0) + UNITS.get(found["unit"] or found["one"], 0.0)
        yield match[0], value * LARGE.get(found["large"], 1.0)


def value_of(text: str) -> float | None:
    """The number that an option of a poll, or what a cell shows, comes to; None without one."""
    if match := RANGE.search(text):
        ends = [digits(end) for end in match.groups()[:2] if end]
        value = max(ends) if min(ends) < 0 else sum(ends) / len(ends)  # −8 and 8: how far it goes
        return value / 100 if match[3] else value
    for _, value in [*parts(text), *words(text)]:
        return value
    return next((value for word, value in WHOLE.items() if re.search(rf"\b{word}\b", text)), None)
