"""The order of the pages: what the sidebar lists, what it folds, and what follows what."""

import re

ROOMS = ["functional", "layers", "gradients", "fused", "surgery"]  # of normlib: a page each
GROUPS = {  # caption in the sidebar -> pages; a page that no group names stops the build
    "Look up": [
        "reference/choose",
        "reference/questions",
        "reference/equations",
        "reference/notation",
        "reference/glossary",
        "reference/course_map",
    ],
    "Sources": [
        "reference/sources",
        "reference/bibliography",
        "reference/claims",
        "reference/reported",
        "reference/errata",
    ],
    "For print and for a room": [
        "exercises",
        "derivations",
        "solutions",
        "lectures",
        "my_lectures",
    ],
    "Library (API)": [f"library/{room}" for room in ROOMS],
    "About": ["hosting"],
}
LISTS = {  # pages that only list others: name -> what it lists, title, what is said there
    "exercises": ("exercises/*", "Exercise sheets", "The exercises without hints, for print."),
    "derivations": ("reference/derivation_*", "Derivations", "Every line of them, for print."),
    "solutions": ("solutions/*", "Solutions", "Of each lesson; they are run as the lessons are."),
    "lectures": ("lectures/*", "Lectures", "Decks with speaker notes for the main road."),
    "my_lectures": ("my/lectures/*", "My lectures", "Decks of your own."),
}
LESSON = re.compile(r"(\d\d)([a-z]?)_\w+")


def main_road(lessons: list[str]) -> list[str]:
    """The names without a letter."""
    return [name for name in lessons if not letter(name)]


def letter(lesson: str) -> str:
    found = LESSON.fullmatch(lesson)
    return found[2] if found else ""


def side_lessons(lesson: str, lessons: list[str]) -> list[str]:
    """`02a_placement` and `02b_other_axes` of `02_layer_norm`."""
    return [name for name in lessons if name[:2] == lesson[:2] and letter(name)]


def neighbours(lesson: str, lessons: list[str]) -> tuple[str, str]:
    """What is before and after a lesson on the main road; a side lesson comes back to it."""
    road = main_road(lessons)
    place = [name[:2] for name in road].index(lesson[:2])
    after = road[place + 1] if place + 1 < len(road) else "reference/choose"
    if letter(lesson):
        return road[place], after
    return road[place - 1] if place else "index", after


def toctree(pages: list[str], *options: str) -> str:
    return "\n".join(["```{toctree}", *options, "", *pages, "```", ""])


def sidebar(lessons: list[str], there: list[str]) -> str:
    """The tables of contents that no page shows, for the first page."""
    groups = {"Lessons": main_road(lessons)}
    groups |= {caption: [p for p in pages if p in there] for caption, pages in GROUPS.items()}
    trees = [toctree(pages, ":hidden:", f":caption: {name}") for name, pages in groups.items()]
    return "\n\n" + "\n".join(trees)


def list_page(name: str, pages: list[str]) -> str:
    _, title, words = LISTS[name]
    return f"# {title}\n\n{words}\n\n{toctree(pages, ':maxdepth: 1')}"
