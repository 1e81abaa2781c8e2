"""Lessons that the course has no more, and where their subjects are now."""

from pathlib import Path

# A lesson that is renamed or dissolved is entered here: its name, and where its subject is now.
MOVED = {
    "00b_explosion": ("00b",),
    "00c_one_step": ("00b", "05a"),
    "02b_relatives": ("02b", "07a"),
    "02c_other_axes": ("02b",),
    "04b_steepness": ("04a",),
    "05b_bounds": ("06b",),
}


def goals(old: str, notebooks: Path) -> list[str]:
    """The names of the lessons that treat now what `old` treated, as far as `notebooks` has them.

    It is empty where `old` is still a lesson itself, or never was one.
    """
    if (notebooks / f"{old}.ipynb").exists():
        return []
    found = (notebooks.glob(f"{new}_*.ipynb") for new in MOVED.get(old, ()))
    return [path.stem for paths in found for path in paths]


def page(old: str, new: list[str]) -> str:
    """The web page at the address of a lesson that is gone; a notebook's name is a link."""
    links = [f"- [{name}]({name}.ipynb)" for name in new]
    title = f"# {old} has moved"
    words = "The course has no lesson of this name any more. Its subject is now in:"
    return "\n".join(["---", "orphan: true", "---", "", title, "", words, "", *links, ""])


def earlier(number: str) -> list[str]:
    """The names of the lessons whose subject went, in whole or in part, to the lesson `number`."""
    return [old for old, new in MOVED.items() if number in new]
