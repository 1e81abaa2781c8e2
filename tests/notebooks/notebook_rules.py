"""What must hold of every stored notebook and can be seen without a kernel.

lesson_rules.py has what must hold of lessons. A rule takes a Notebook and yields complaints; a
complaint names the cell and the fix.
"""

import ast
import base64
import hashlib
import io
import re
from collections import Counter

import nbformat
from PIL import Image

from normcourse.figures.fingerprint import MOST_CHARACTERS
from normcourse.figures.output import MIN_ALT
from normcourse.lesson import COLLAPSED, Notebook

TAGS = {
    "raises-exception",
    "nbval-ignore-output",
    "solution",
    "hide-input",
    "triton",
    "derivation",
}
MEDIA = {"text/plain", "text/html", "text/latex", "text/markdown", "image/png"}
KERNEL, MINOR = "python3", 5
MAX_BYTES = 600_000
MAX_TEXT = 1000  # characters of output that one cell prints
MAX_LIVE_CELLS = 4
CELL_ID = re.compile(r"(?![0-9a-f]{8}(-|$))[a-z][a-z0-9]*(-[a-z0-9]+)*")
UNSTABLE = {  # pattern in an output: what it is
    r"\b0x[0-9a-fA-F]{6,}": "an object's address",
    r"(?<![\w./])/(home|root|tmp|usr|opt|var|work|private|Users)/"
    r"|\b[A-Z]:\\": "a path of one machine",
    r"\de-1[5-9]\b": "rounding noise: print an inequality",
    r"(?<![\w.])-0(\.0*)?(?![\d.-])": "a negative zero: print an inequality",
    r"Wall time|CPU times": "a time",
}
COMPUTES = {  # modules whose calls a reader should see; loading from them is no computation
    "nn", "F", "functional", "gradients", "layers", "fused", "surgery",
    "training", "measures", "timing", "linalg", "autograd", "optim", "check", "checks",
}  # fmt: skip
LOADS = ("load", "read")
RULES = {}


def rule(*kinds):
    """Register a rule for notebooks of these kinds (lesson, solutions, other), or for all."""

    def register(check):
        RULES[check.__name__] = (kinds, check)
        return check

    return register


def parsed(cell):
    try:
        return ast.parse(cell.source)
    except SyntaxError:  # plain_python complains
        return ast.Module([], [])


@rule()
def schema(notebook):
    for error in nbformat.validator.iter_validate(notebook.stored):
        yield f"not a valid notebook: {error}"
    for cell in notebook.cells:
        if cell.cell_type == "raw":
            yield f"{cell.id}: raw cells are shown nowhere: make it Markdown"


@rule()
def ids(notebook):
    counted = Counter(cell.id for cell in notebook.cells)
    for name, times in counted.items():
        if times > 1:
            yield f"{name}: {times} cells have this id: give each its own"
        if not CELL_ID.fullmatch(name):
            yield f"{name}: name the cell for what it does, like predict-01"


@rule()
def metadata(notebook):
    about = notebook.stored.get("metadata", {})
    minor = notebook.stored.get("nbformat_minor")
    if minor != MINOR or set(about) != {"kernelspec", "language_info"}:
        yield "notebook metadata: run python -m tools.notebooks, which cleans it"
    elif about["kernelspec"].get("name") != KERNEL or "version" in about["language_info"]:
        yield "kernelspec or language_info: run make notebooks, which writes the one we use"
    for cell in notebook.cells:
        allowed = {"tags", "output_made_from"} if "nbval-ignore-output" in cell.tags else {"tags"}
        if cell in notebook.evidence[:1]:
            allowed.add(COLLAPSED)
        if extra := set(cell.metadata) - allowed:
            yield f"{cell.id}: metadata {sorted(extra)}: run make notebooks, which cleans it"


@rule()
def known_tags(notebook):
    for cell in notebook.cells:
        for tag in set(cell.tags) - TAGS:
            yield f"{cell.id}: tag {tag!r} is none of {sorted(TAGS)}"
        if re.search(r"NBVAL_|PYTEST_VALIDATE", cell.source):
            yield f"{cell.id}: take the nbval comment out: every output is compared"


@rule()
def hidden_input(notebook):
    """What is folded need not be read.

    It draws, loads or formats what other cells have computed.
    """
    for cell in notebook.cells:
        if "hide-input" in cell.tags:
            for what in computes(cell):
                yield f"{cell.id}: hide-input, but {what}: move it to a cell that is read"


def computes(cell):
    """What in a cell is neither drawing nor loading nor formatting."""
    if cell.cell_type != "code":
        yield "it is no code cell"
        return
    for node in ast.walk(ast.parse(cell.source)):
        if isinstance(node, ast.ClassDef):
            yield f"it defines the class {node.name}"
        elif isinstance(node, ast.Assert):
            yield "it asserts something"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "it multiplies matrices"
        elif isinstance(node, ast.Call):
            *owners, name = ast.unparse(node.func).split(".")
            if not name.startswith(LOADS) and (COMPUTES & set(owners) or name == "backward"):
                yield f"it calls {ast.unparse(node.func)}"


@rule()
def live_cells(notebook):
    live = [cell for cell in notebook.cells if "nbval-ignore-output" in cell.tags]
    allowed = (
        MAX_LIVE_CELLS
        if notebook.kind == "lesson" and notebook.path.name.startswith(("07_", "07a_"))
        else 0
    )
    if len(live) > allowed:
        yield (
            f"{live[-1].id}: nbval-ignore-output {len(live)} times, allowed {allowed}: "
            "print what is stable"
        )
    for cell in live:
        made_from = hashlib.sha256(cell.source.encode()).hexdigest()[:16]
        if cell.metadata.get("output_made_from") != made_from:
            yield f"{cell.id}: output and source do not belong together: run make notebooks"


@rule()
def execution_counts(notebook):
    for count, cell in enumerate(notebook.code, 1):
        counts = {cell.stored["execution_count"]} | {
            o.stored["execution_count"] for o in cell.outputs if "execution_count" in o.stored
        }
        if counts != {count}:
            yield f"{cell.id}: counts {counts}, expected {count}: run python -m tools.notebooks"


@rule()
def errors_and_warnings(notebook):
    for cell in notebook.code:
        if any(output.stored.get("name") == "stderr" for output in cell.outputs):
            yield f"{cell.id}: writes to stderr: remove the cause of the warning"
        raised = any(output.stored["output_type"] == "error" for output in cell.outputs)
        if raised != ("raises-exception" in cell.tags):
            yield (
                f"{cell.id}: a cell is tagged raises-exception if and only if it raises: "
                "tag it or mend it"
            )


@rule()
def stable_outputs(notebook):
    for cell in notebook.code:
        # A fingerprint rounds by itself, and a figure on a logarithmic axis may go down to 1e-16.
        outputs = [o for o in cell.outputs if not o.fingerprint and not o.is_caption]
        text = "\n".join(text for output in outputs for text in output.texts)
        for pattern, what in UNSTABLE.items():
            if match := re.search(pattern, text):
                yield f"{cell.id}: prints {match.group()!r}, {what}"
        if re.search(r"\bnan\b", text) and "nan" not in cell.source:
            yield f"{cell.id}: prints nan; if it is meant, the cell says so by naming it"


@rule()
def output_sizes(notebook):
    if (size := notebook.path.stat().st_size) > MAX_BYTES:
        yield f"{size} bytes, allowed {MAX_BYTES}: fewer or smaller figures"
    for cell in notebook.code:
        plain = [
            output.printed or output.data.get("text/plain", "")
            for output in cell.outputs
            if not output.fingerprint
        ]
        if (length := sum(map(len, plain))) > MAX_TEXT:
            yield (
                f"{cell.id}: {length} characters of output, allowed {MAX_TEXT}: assert, "
                "then print one line"
            )
        for output in cell.outputs:
            if len(output.fingerprint) > MOST_CHARACTERS:
                yield (
                    f"{cell.id}: fingerprint over {MOST_CHARACTERS} characters: "
                    "fewer lines in the figure"
                )


@rule()
def pictures(notebook):
    seen = set()
    for cell in notebook.code:
        for output in cell.outputs:
            if unknown := set(output.data) - MEDIA:
                yield (
                    f"{cell.id}: output of type {sorted(unknown)} is not compared: "
                    f"use {sorted(MEDIA)}"
                )
            if output.fingerprint or output.has_picture:
                yield from (f"{cell.id}: {message}" for message in picture_faults(output, seen))


def picture_faults(output, seen):
    """Complaints about one picture; `seen` collects the alt texts of the notebook."""
    alt, png = output.alt, output.data.get("image/png")
    if png is None:
        yield "the picture is gone, its fingerprint is there: run python -m tools.notebooks"
    elif Image.open(io.BytesIO(base64.b64decode(png))).info.get("Fingerprint") != output.data.get(
        "text/plain"
    ):
        yield (
            "the picture is not the one of this fingerprint: run python -m tools.notebooks; "
            "draw with figures.show"
        )
    if len(alt) < MIN_ALT or alt in seen:
        yield (
            f"alt text {alt!r}: give each figure its own, {MIN_ALT} characters or more, "
            "saying what to see"
        )
    seen.add(alt)


@rule()
def plain_python(notebook):
    for cell in notebook.code:
        if not cell.source.strip():
            yield f"{cell.id}: empty code cell: delete it"
        try:
            ast.parse(cell.source)
        except SyntaxError:
            if "raises-exception" not in cell.tags:
                yield f"{cell.id}: not plain Python: no magics, no shell"
        if re.search(r"^\s*(import|from)\s+matplotlib", cell.source, re.M):
            yield f"{cell.id}: imports matplotlib: draw with normcourse.figures"


@rule()
def links(notebook):
    """Files that the text links to exist, and so do the anchors in them."""
    for cell in notebook.markdown:
        text = re.sub(r"`[^`\n]+`", " ", cell.source)
        for address in re.findall(r"\]\(([^)\s]+)|\bsrc=\"([^\"]+)", text):
            target, _, anchor = "".join(address).partition("#")
            path = notebook.path.parent / target if target else notebook.path
            if re.match(r"[a-z]+:", target):
                continue
            if not path.exists():
                yield f"{cell.id}: {target} does not exist"
            elif anchor and anchor not in anchors(path):
                yield f"{cell.id}: {target} has no anchor {anchor!r}: a heading or <a id> gives one"


def anchors(path) -> set[str]:
    """What a link to a Markdown page or a notebook may name after #: headings, and <a id="…">."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        text = Notebook(path).text
    headings = re.findall(r"^#+ +(.+?) *$", text, re.M)
    on_github = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    in_jupyter = {heading.replace(" ", "-") for heading in headings}
    return on_github | in_jupyter | set(re.findall(r"<a id=\"([^\"]+)\"", text))
