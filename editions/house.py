"""The colours of the course's figures: a norm has its own, on a slide as in a lesson.

They are read from the style's source: to import it would load torch and matplotlib for a deck.
"""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "normcourse" / "figures" / "style.py"
OTHER = "blue"  # what is no norm
WRITTEN = {  # as a lesson prints it: as people write it
    "none": "no norm",
    "batch_norm": "BatchNorm",
    "layer_norm": "LayerNorm",
    "rms_norm": "RMSNorm",
    "group_norm": "GroupNorm",
    "instance_norm": "InstanceNorm",
    "weight_norm": "weight norm",
    "dyt": "DyT",
    "dyisru": "DyISRU",
    "derf": "Derf",
}
SHORT = {"nonorm": "none", "withoutanorm": "none", "ln": "layer_norm", "bn": "batch_norm"}


def _constants() -> dict[str, dict]:
    """The dictionaries that style.py assigns."""
    found = {}
    for line in ast.parse(SOURCE.read_text("utf-8")).body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as value):
                found[name] = ast.literal_eval(value)
    return found


_READ = _constants()
NORMS = {name: colour for name, (colour, _) in _READ["STYLE"].items()}
COLOURS = NORMS | _READ["COLOURS"]


def norm_in(name: str) -> str | None:
    """The norm that a name is about: `DyT, derived` is about dyt. The longest one counts."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    if letters in SHORT:
        return SHORT[letters]
    spelled = {norm.replace("_", ""): norm for norm in NORMS} | {"nonorm": "none"}
    inside = [short for short in spelled if short in letters]
    return spelled[max(inside, key=len)] if inside else None


def colour_of(name: str) -> str:
    return COLOURS[norm_in(name) or OTHER]


def ink(colour: str) -> str:
    """The colour, dark enough for letters: style.ink says why."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return "#" + "".join(f"{round(0.75 * channel * 255):02x}" for channel in channels)
