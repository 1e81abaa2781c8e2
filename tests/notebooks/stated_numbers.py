r"""The numbers that a text states, and whether a number that is shown makes them true.

`94%` is true where an output shows 94, 93.7 % or 0.937: a shown number may have more digits, and a
percentage and its fraction are one number. `about`, `nearly`, `over`, `at most` and their like
make a number an estimate (Stated.is_backed_by). `nine of ten` is 0.9, `a fifth` also 20 %,
`a thousand times less` also 0.001. Small numbers, of one digit or up to twelve in words, and plain
parts are not rounded.
"""

import re
from collections.abc import Iterator, Set
from math import floor, log10
from typing import NamedTuple

UNITS = ["three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
UNITS += ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
UNITS = {word: n for n, word in enumerate(UNITS, 3)}
DECADES = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
TENS = {word: 10 * n for n, word in enumerate(DECADES, 2)}
LARGE = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
WORDS = {"one": 1, "two": 2} | UNITS | TENS
PARTS = {"third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
PARTS |= {"hundredth": 100, "thousandth": 1000, "millionth": 1e6}
LARGEST_SMALL = 12

DIGITS = r"(?<![\w.#])(?<![A-Za-z]-)(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
UPTO_NINE = rf"[1-9]|{'|'.join(list(WORDS)[:9])}"
TENTHS = rf"(?P<tenths>{UPTO_NINE})(?: out)? (?:of|in)(?: every)? (?:ten|10)\b"
PART = rf"(?P<count>a|one|two|three|four|five)[ -](?P<part>{'|'.join(PARTS)})s?\b"
FRACTION = rf"(?P<above>{DIGITS})/(?P<below>[1-9]\d*)(?![\w./])"
WORD = (
    rf"(?:(?P<tens>{'|'.join(TENS)})(?:[ -](?P<unit>{'|'.join(WORDS)}))?"
    rf"|(?P<one>{'|'.join(UNITS)}))?"
    rf"(?:(?(tens) |(?(one) |))(?P<large>{'|'.join(LARGE)}))?"
)
ORDINAL = r"(?! (?:reader|time|way)\b)"  # a third reader is no part
STATED = re.compile(
    rf"\b{TENTHS}|\b{PART}{ORDINAL}|{FRACTION}|(?P<digits>{DIGITS})|\b(?=[a-z]){WORD}(?<=\w)(?:s|fold)?\b",
    re.I,
)
COUNTED = re.compile(  # five other random starts; reading_rules.py: things_counted
    rf"(?<![\d.])\b(?P<count>\d+|two|{'|'.join(UNITS | TENS)})"
    r"(?:\s+(?:other|random|different))*\s+"
    r"(?:(?P<run>start|seed|draw)|net|network|run|training|layer)s\b",
    re.I,
)
PERCENT = re.compile(r"\s*(?:\\?%|percent\b|points\b)")
BOUNDS = {  # words in front of a number -> what they make of it
    "above": "no less than|no fewer than|not less than|over|above|more than|at least|just over",
    "below": "no more than|not more than|under|below|less than|fewer than|at most|up to",
    "nearly": "nearly|almost|just under|just below|not quite",
    "about": "about|around|roughly|approximately|some|close to|near",
}
BOUND = re.compile(
    r"(?:"
    + "|".join(rf"(?P<{name}>\b(?:{words}))" for name, words in BOUNDS.items())
    + r"|(?P<sign>[~≈]|\\approx))\s*(?:the |an? )?$",
    re.I,
)
LONGEST_BOUND = 25  # characters
BEYOND = 0.25  # how far above `over 100` the number may be, as a part of it
OF_THE_REST = 0.8  # and of what is left to all
NEAR = 0.05, 0.1  # `about`: at least so near as the first; no farther than the second


class Stated(NamedTuple):
    text: str
    value: float
    step: float  # that its last digit counts, 0 for what is not rounded
    bound: str  # above, below, nearly, about, or nothing
    percent: bool
    word: bool
    small: bool
    counts: tuple[float, ...]  # 9 and 10 of `nine of ten`, which may be counts of something

    def is_backed_by(self, shown: Set[float], exact: Set[float] = frozenset()) -> bool:
        """Whether it says one of the shown numbers, or repeats one of the exact."""
        return (
            any(map(self._says, shown))
            or any(map(self._equals, exact))
            or (bool(self.counts) and shown | exact >= set(self.counts))
        )

    def agrees(self, other: "Stated") -> bool:
        """Whether two texts say the same number, in whatever words."""
        bounds = {self.bound, other.bound}
        return self._same(other.value - self.value) and bounds != {"above", "below"}

    def _says(self, number: float) -> bool:
        return any(self._fits(form - self.value) for form in self._forms(number))

    def _equals(self, number: float) -> bool:
        return any(self._same(form - self.value) for form in self._forms(number))

    def _forms(self, number: float) -> Iterator[float]:
        yield number
        if self.percent and 0 < number < 1:
            yield 100 * number
        if self.word and self.value < 1:
            yield number / 100
        if self.word and self.value >= 100 and number:
            yield 1 / number

    def _same(self, off: float) -> bool:
        return abs(off) <= 1e-9 * self.value

    def _fits(self, off: float) -> bool:
        """Whether a number that is larger by `off` is told by this one."""
        rounding = 0.5 * self.step * (1 + 1e-9)
        if self._same(off):
            return True
        if self.bound == "above":
            return 0 < off <= self._beyond()
        if self.bound == "below":
            return 0 < -off <= BEYOND * self.value
        if self.bound == "nearly":
            return 0 < -off <= max(rounding, self._margin())
        return abs(off) <= (max(rounding, self._margin()) if self.bound else rounding)

    def _beyond(self) -> float:
        """How far above it `over` reaches: `over 100` to 125, but `over 90%` to 98%."""
        whole = 100 if self.percent else 1 if self.counts else 0
        rest = whole - self.value
        return min(BEYOND * self.value, OF_THE_REST * rest) if rest > 0 else BEYOND * self.value

    def _margin(self) -> float:
        """What `about` covers: `about 90` 85 to 95, `about 150` 142.5 to 157.5."""
        least, most = (part * self.value for part in NEAR)
        digits = f"{self.value:.12e}".partition("e")[0].rstrip("0").rstrip(".")
        last = 10.0 ** (floor(log10(self.value)) - max(0, len(digits) - 2)) if self.value else 0
        return max(least, min(most, last / 2))


def count_of(counted: re.Match) -> int:
    return WORDS.get(counted["count"].lower()) or int(counted["count"])


def value_of(text: str) -> float:
    return float(text.replace(",", ""))


def step_of(digits: str) -> float:
    mantissa, _, power = digits.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(power or 0) - decimals}")


def stated(text: str) -> Iterator[Stated]:
    """The numbers of a text in their order."""
    for found in STATED.finditer(text):
        bound = BOUND.search(text[max(0, found.start() - LONGEST_BOUND) : found.start()])
        percent = PERCENT.match(text, found.end())
        kind = bound.lastgroup.replace("sign", "about") if bound else ""
        value, step, word, small = read(found)
        small = small and not percent
        step = 0 if small else step
        said = found[0] + (percent[0].rstrip() if percent else "")
        counts = (round(10 * value), 10) if found["tenths"] else ()
        yield Stated(said, value, step, kind, bool(percent), word, small, counts)


def read(found: re.Match) -> tuple[float, float, bool, bool]:
    """Value, step, is it a word, is it small."""
    part = {name: (text or "").lower() for name, text in found.groupdict().items()}
    if part["tenths"]:
        count = WORDS.get(part["tenths"]) or int(part["tenths"])
        return count / 10, 0.1, True, False
    if part["part"]:
        return WORDS.get(part["count"], 1) / PARTS[part["part"]], 0, True, False
    if part["above"]:
        value = value_of(part["above"]) / value_of(part["below"])
        return value, 0.02 * value, False, False
    if part["digits"]:
        digits = part["digits"]
        return value_of(digits), step_of(digits), False, len(digits) == 1
    value = TENS.get(part["tens"], 0) + WORDS.get(part["unit"] or part["one"], 0)
    value = (value or 1) * LARGE.get(part["large"], 1.0)
    return value, 0 if part["large"] else 1, True, value <= LARGEST_SMALL


def numbers_of(text: str) -> set[float]:
    """The numbers of a text that shows them, a percentage as a fraction as well."""
    found = set()
    for number in stated(text):
        found.add(number.value)
        if number.percent:
            found.add(number.value / 100)
    return found
