"""Execute notebooks again, in place, each from a fresh kernel.

`python -m tools.notebooks [--live] [PATH …]`

What is written depends on the sources and the results only: a notebook in which nothing changed
stays the same byte for byte. A cell tagged `nbval-ignore-output` (live timing) runs as well, but
keeps its output if that was made from the present source; `--live` renews it. A cell that fails, or
a full disk, leaves the file as it was.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from tqdm import tqdm
from traitlets.config import Config

from normcourse import atomic
from normcourse.lesson import COLLAPSED, begins_evidence
from tools import (
    faster_imports,  # noqa: F401 (before nbformat)
    files,
    jupyter_kernels,
)

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "name": "python",
        "pygments_lexer": "ipython3",
        "file_extension": ".py",
        "mimetype": "text/x-python",
    },
}
LIVE = "nbval-ignore-output"
# metadata of a live cell: a hash of the source that its output belongs to
MADE_FROM = "output_made_from"
WORKERS = 2


def source_id(cell) -> str:
    return hashlib.sha256(cell.source.encode()).hexdigest()[:16]


def is_live(cell) -> bool:
    return LIVE in cell.metadata.get("tags", [])


def execute(notebook, folder: Path, tick: Callable[[], object]) -> str | None:
    """Run all cells in a new kernel that works in `folder`.

    Returns what went wrong, or None.
    """
    with tempfile.TemporaryDirectory() as sockets:
        transport = jupyter_kernels.transport(sockets)
        return _execute(notebook, folder, tick, Config(KernelManager=transport))


def _execute(notebook, folder: Path, tick, config: Config) -> str | None:
    client = NotebookClient(
        notebook,
        timeout=jupyter_kernels.CELL_TIMEOUT_S,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        config=config,
        resources={"metadata": {"path": str(folder)}},
    )
    jupyter_kernels.start_warm(client.create_kernel_manager())
    environment = jupyter_kernels.kernel_environment()
    # stderr: ipykernel greets with a warning about TCP.
    with client.setup_kernel(stderr=subprocess.DEVNULL, env=environment):
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index)
            except (CellControlSignal, DeadKernelError) as error:
                return f"cell {cell.get('id', index)}: {str(error).strip()}"
            tick()
    return None


def tidy(cell) -> None:
    """Drop what differs between runs: metadata but the tags, and tracebacks, which hold paths."""
    kept = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
    if is_live(cell):
        kept[MADE_FROM] = source_id(cell)
    if begins_evidence(cell.cell_type, cell.source):
        kept[COLLAPSED] = True
    cell.metadata = nbformat.from_dict(kept)
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            output.traceback = [f"{output.ename}: {output.evalue}"]


def keep_live_outputs(cells, stored) -> None:
    """Give live cells their stored outputs back where these were made from the same source."""
    for cell, old in zip(cells, stored, strict=True):
        if is_live(cell) and old.outputs and old.metadata.get(MADE_FROM) == source_id(cell):
            cell.outputs = old.outputs
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = cell.execution_count


def read(path: Path):
    """The notebook; ValueError with one sentence for a file that is none."""
    try:
        return nbformat.reads(path.read_text("utf-8"), as_version=4)
    except Exception as error:  # of half a dozen kinds, by what the file holds
        raise ValueError(files.no_notebook(path)) from error


def renew(
    path: Path, *, live: bool = False, tick: Callable[[], object] = lambda: None
) -> str | None:
    """Execute one notebook and write it if it changed.

    An error is returned, and nothing written.
    """
    before = path.read_bytes()
    stored, notebook = (nbformat.reads(before.decode(), as_version=4) for _ in range(2))
    failure = execute(notebook, path.resolve().parent, tick)
    if failure:
        return f"{path}, {failure}"
    if not live:
        keep_live_outputs(notebook.cells, stored.cells)
    for cell in notebook.cells:
        tidy(cell)
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat_minor = 5
    nbformat.validate(notebook)
    after = (nbformat.writes(notebook).rstrip("\n") + "\n").encode()
    if after != before:
        try:
            atomic.write(path, after)
        except OSError as error:
            return f"{path} could not be written ({error.strerror}): it is as it was."
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Re-execute notebooks in place.")
    parser.add_argument("paths", nargs="*", type=Path, help="default: everything under notebooks/")
    parser.add_argument(
        "--live", action="store_true", help=f"renew the outputs of cells tagged {LIVE}, too"
    )
    arguments = parser.parse_args()
    found = (p for p in sorted(NOTEBOOKS.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts)
    paths = arguments.paths or list(found)
    if missing := [str(path) for path in paths if not path.is_file()]:
        parser.error(f"no such notebook: {', '.join(missing)}")
    try:
        total = sum(len(read(path).cells) for path in paths)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    with tqdm(total=total, unit="cell", disable=None) as bar, ThreadPoolExecutor(WORKERS) as pool:
        results = pool.map(lambda path: renew(path, live=arguments.live, tick=bar.update), paths)
        complaints = [complaint for complaint in results if complaint]
    for complaint in complaints:
        print(complaint, end="\n\n", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
