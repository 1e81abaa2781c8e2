"""Takes the README's picture out of the lesson that draws it, for `make pages`."""

import base64
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LESSON = ROOT / "notebooks/02_layer_norm.ipynb"
CELL = "closed-figure"
PICTURE = ROOT / "notebooks/reference/hero.png"


def figure() -> tuple[bytes, str]:
    """The PNG that the lesson stores, and its alt text."""
    cells = json.loads(LESSON.read_text("utf-8"))["cells"]
    outputs = next(cell["outputs"] for cell in cells if cell["id"] == CELL)
    picture = next(output for output in outputs if "image/png" in output.get("data", {}))
    return base64.b64decode(picture["data"]["image/png"]), picture["metadata"]["image/png"]["alt"]


def made() -> dict[Path, bytes]:
    return {PICTURE: figure()[0]}
