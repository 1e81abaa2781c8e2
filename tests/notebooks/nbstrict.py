"""Strict nbval without its holes: `python -m pytest -p tests.notebooks.nbstrict tests notebooks`.

Plain nbval 0.11 accepts a cell that was never executed, a `raises-exception` cell that raises
nothing and a changed alt text; it waits until the time limit for a dead kernel, and a final `;`
turns it red for no fault. This plugin collects the notebooks itself, as subclasses of nbval's
private classes: hence the pinned nbval and test_nbstrict.py, which injects the faults. What needs
no kernel: notebook_rules.py.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from queue import Empty

import tools.faster_imports  # noqa: F401 (before nbformat)

# isort: split
import pytest
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError, nocolors

from tests.notebooks.pictures import distance, limit
from tools import jupyter_kernels

CELL_TIMEOUT_S = jupyter_kernels.CELL_TIMEOUT_S
MESSAGE_TIMEOUT_S = 60  # from a cell's end to its outputs; on an idle machine a few ms
POLL_S = 1
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def pytest_configure(config):
    if config.option.nbval_lax:
        raise pytest.UsageError(
            "--nbval-lax compares nothing: leave it out, every output is compared here."
        )
    if getattr(config.option, "dist", "no") not in {"no", "loadfile", "loadscope"}:
        raise pytest.UsageError(
            "A notebook's cells must run in one worker, in order: add --dist loadfile."
        )
    config.option.nbval = False  # or nbval would collect every notebook a second time


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb":
        return StrictNotebook.from_parent(parent, path=file_path)
    return None


def triton_runs_here() -> bool:
    """On Linux always: there a missing triton is a fault, and its cells turn red."""
    return sys.platform == "linux" or importlib.util.find_spec("triton") is not None


def left_out_here(cell: NotebookNode) -> bool:
    return "triton" in cell.metadata.get("tags", []) and not triton_runs_here()


class StrictKernel(RunningKernel):
    """A kernel of this very Python that treats cells as Jupyter does.

    Its death is noticed at once.
    """

    def __init__(self, folder):
        self.sockets = tempfile.TemporaryDirectory()
        self.km = KernelManager(
            kernel_name=CURRENT_ENV_KERNEL_NAME,
            kernel_spec_manager=NbvalKernelspecManager(),
            **jupyter_kernels.transport(self.sockets.name),
        )
        jupyter_kernels.start_warm(self.km)
        environment = jupyter_kernels.kernel_environment()
        self.km.start_kernel(stderr=subprocess.DEVNULL, cwd=str(folder), env=environment)
        self.kc = self.km.client()
        self.kc.start_channels()
        try:
            self.kc.wait_for_ready(timeout=jupyter_kernels.CELL_TIMEOUT_S)
        except RuntimeError:
            self.stop()
            raise
        self._ensure_iopub_up()

    def execute_cell_input(self, cell_input, allow_stdin=None):
        # IPython honours a final `;` only with store_history=True.
        return self.kc.execute(
            cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False
        )

    def await_reply(self, msg_id, timeout=None):
        end = time.monotonic() + timeout
        while True:
            try:
                return super().await_reply(msg_id, timeout=POLL_S)
            except Empty:
                if not self.is_alive():
                    raise RuntimeError("the kernel died") from None
                if time.monotonic() >= end:
                    raise


class StrictNotebook(IPyNbFile):
    def collect(self):
        for cell in super().collect():
            strict = StrictCell.from_parent(
                self,
                name=cell.cell.get("id", cell.name),
                cell_num=cell.cell_num,
                cell=cell.cell,
                options=cell.options,
            )
            strict.add_marker(pytest.mark.timeout(0))  # the kernel's limit is CELL_TIMEOUT_S
            if left_out_here(cell.cell):
                strict.add_marker(
                    pytest.mark.skip(reason=f"triton has no wheel for {sys.platform}")
                )
            yield strict

    ended = None  # why the cells that are left cannot run

    def setup(self):
        self.config.option.nbval_cell_timeout = CELL_TIMEOUT_S
        self.kernel = StrictKernel(self.path.parent)

    def end(self, cell, reason: str) -> str:
        """Stop the kernel, which is of no use any more.

        Returns what happened in the cell, and how many cells after it were not run.
        """
        self.ended = f"not run: {reason} in {self.path.name}, cell {cell.name}"
        self.kernel.stop()  # closes the sockets of a dead one, too
        codes = [cell for cell in self.nb.cells if cell.cell_type == "code"]
        left = len(codes) - cell.cell_num - 1
        return f"{reason}; the {left} cells after this one were not run"

    def teardown(self):
        if self.kernel is None:
            return
        if self.kernel.is_alive():
            self.kernel.stop()
        self.kernel.sockets.cleanup()


class StrictCell(IPyNbCell):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.colors = nocolors
        self.output_timeout = MESSAGE_TIMEOUT_S

    def setup(self):
        if self.parent.ended:
            pytest.skip(self.parent.ended)

    def runtest(self):
        if self.cell.execution_count is None:
            self.raise_cell_error("never executed: there is no stored output to compare with")
        reason = self.run_in_kernel()
        if reason:
            self.raise_cell_error(self.parent.end(self, reason))
        if self.options["check_exception"] and not self.raised:
            self.raise_cell_error("tagged raises-exception, but raised nothing")

    @property
    def raised(self) -> bool:
        """Whether the cell raised an exception in this run."""
        return any(output.output_type == "error" for output in self.test_outputs or [])

    def run_in_kernel(self) -> str | None:
        """nbval's run and comparison; returns why the kernel cannot go on, if it cannot."""
        limit = f"the cell ran longer than {CELL_TIMEOUT_S} s"
        try:
            super().runtest()
        except NbCellError:
            if self.parent.timed_out:
                return limit
            raise
        except RuntimeError as error:
            return str(error)
        return limit if self.parent.timed_out else None

    def compare_outputs(self, test, ref, skip_compare=None):
        same = super().compare_outputs(with_alt(test), with_alt(ref), skip_compare)
        return same and self.pictures_alike(test, ref)

    def pictures_alike(self, test, ref) -> bool:
        """Say whether each picture drawn now looks like the stored one.

        The eye that judges forgives fonts.
        """
        for number, (drawn, stored) in enumerate(
            zip(pictures(test), pictures(ref), strict=True), 1
        ):
            far = distance(drawn, stored)
            allowed = limit()
            if far > allowed:
                complaint = (
                    f"picture {number} is not the stored one: distance {far:.3f}, allowed {allowed}"
                )
                self.comparison_traceback.append(complaint)
                return False
        return True

    def repr_failure(self, excinfo):
        if not isinstance(excinfo.value, NbCellError):
            return super().repr_failure(excinfo)
        details = COLOUR.sub("", excinfo.value.inner_traceback or "").strip("\n") + "\n"
        details += "".join(o.text for o in self.test_outputs or [] if o.get("name") == "stderr")
        says = (
            f"{self.path.name}, cell {self.name}: {excinfo.value}\n{details}\n"
            f"The cell:\n{self.cell.source}\n"
        )
        unexpected = self.raised and not self.options["check_exception"]
        if self.parent.ended or unexpected:  # there is no new result to store
            return says
        return (
            f"{says}\nIf the new result is the right one, renew the stored outputs: make notebooks"
        )

    def reportinfo(self):
        return self.path, None, f"{self.path.name}::{self.name}"


def pictures(outputs) -> list[str]:
    return [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def alt_text(output) -> str | None:
    """The alt text of a picture: Jupyter keeps it under the picture's type, or beside it."""
    metadata = output.get("metadata", {})
    return metadata.get("image/png", {}).get("alt") or metadata.get("alt")


def with_alt(outputs):
    """The outputs with the alt texts, which nbval skips, copied to the data, which it compares."""
    lifted = [NotebookNode(output) for output in outputs]
    for output in lifted:
        if "image/png" in output.get("data", {}):
            output.data = output.data | {"alt text": alt_text(output)}
    return lifted
