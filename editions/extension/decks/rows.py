"""Rows of what a cell printed, by a pattern with groups: what charts and tables are made of."""

import re
from dataclasses import dataclass

from editions.extension.decks.lesson import Misfit

NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")

SCIENTIFIC = re.compile(r"(-?\d(?:\.\d+)?)e([+-]\d+)")
SHORT_POWERS = range(-3, 4)  # written out: 0.0012, 1200
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Row:
    """What one match of the pattern found, and the heading of the group that it stands in."""

    group: str
    cells: tuple[str, ...]
    named: dict[str, str]


def unslashed(pattern: str) -> str:
    """/pattern/ without its slashes, and only those."""
    pattern = pattern.strip()
    return pattern[1:-1] if len(pattern) > 1 and pattern[0] == pattern[-1] == "/" else pattern


def compiled(pattern: str) -> re.Pattern:
    try:
        return re.compile(unslashed(pattern))
    except re.error as fault:
        raise Misfit(f"{pattern} is no regular expression: {fault}") from None


def rows_of(text: str, pattern: str, groups: str = "") -> list[Row]:
    """Each match of the pattern, line by line; a line that `groups` matches heads what follows."""
    wanted = compiled(pattern)
    heading = compiled(groups) if groups else None
    group = ""
    found = []
    for line in text.split("\n"):
        head = heading and heading.search(line)
        if head:
            group = (head[1] if head.groups() else head[0]).strip()
            continue
        for match in wanted.finditer(line):
            cells = tuple((cell or "").strip() for cell in match.groups())
            named = {name: (cell or "").strip() for name, cell in match.groupdict().items()}
            found.append(Row(group, cells, named))
    if not found:
        raise Misfit(f"{pattern} matches none of these lines: {text.strip()}")
    if groups and not any(row.group for row in found):
        raise Misfit(f":groups: {groups} matches none of these lines: {text.strip()}")
    return found


def number(text: str) -> float:
    """A printed number; the percent sign and the unit behind it do not count."""
    found = NUMBER.match(text.strip())
    if not found:
        raise Misfit(f"{text!r} is no number")
    return float(found[0].replace(",", "").replace("−", "-"))


def numbers(text: str) -> list[float]:
    """All numbers of a printed list."""
    found = [number(each) for each in NUMBER.findall(text)]
    if not found:
        raise Misfit(f"{text!r} holds no number")
    return found


def readable(text: str) -> str:
    """1.1e-12 as 1.1 · 10⁻¹², and 7.0e-01 as 0.70: as one writes it on a board."""
    return SCIENTIFIC.sub(_on_a_board, text)


def _on_a_board(found: re.Match) -> str:
    leading, power = found[1], int(found[2])
    if power not in SHORT_POWERS:
        return f"{leading} · 10{str(power).translate(RAISED)}"
    behind_point = len(leading.strip("-").replace(".", "")) - 1 - power
    return f"{float(found[0]):.{max(0, behind_point)}f}"


def pairs(text: str) -> dict[str, str]:
    """`printed = said; other = said` as a dictionary."""
    found = {}
    for part in filter(str.strip, text.split(";")):
        printed, sign, said = part.partition("=")
        if not sign:
            raise Misfit(f"{part.strip()!r} should be: printed = said; and so on")
        found[printed.strip()] = said.strip()
    return found
