"""Which norm a name on a slide is about, and so its color."""

import re

from normcourse import palette

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


NORMS = {name: color for name, (color, _) in palette.STYLE.items()}
COLOURS = NORMS | palette.COLOURS


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
