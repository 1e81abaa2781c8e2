"""Makes notebooks/reference/choose.md, lesson 08's decision card on one sheet, for `make pages`."""

import sys
from pathlib import Path

from tools import reference

sys.path.insert(0, str(reference.ROOT))

from editions import derivations
from normcourse.lesson import Notebook

PAGE = reference.REFERENCE / "choose.md"
LESSON = reference.ROOT / "notebooks" / "08_capstone.ipynb"
CELL = "card"
HEAD = """# The decision card

Which norm, where, with which ε, in which dtype, and how sure that is. *Proven*: a derivation; *measured here*: small nets, on a CPU; *reported*: others say so; *disputed*: they do not agree.
BN, LN and GN are BatchNorm, LayerNorm and GroupNorm. The numbers, and a card to fill for your own model: [lesson 08](../08_capstone.ipynb#The-decision-card). Made from it: edit it, not this page.
DyT is a learned multiple of tanh(αx) in a norm's place, and α sets its slope at 0. SkipInit has no norm: each branch is multiplied by a learned number that starts at 0. `surgery` is a module of `normlib`; a tied head shares its weights with the embedding; numbers such as 02 or 08a are lessons.
"""  # noqa: E501


def made() -> dict[Path, str]:
    """The page: the lesson's table, its links as they are from the folder reference."""
    table = Notebook(LESSON).cell(CELL).source
    return {PAGE: f"{HEAD}\n{derivations.seen_from_reference(table).strip()}\n"}
