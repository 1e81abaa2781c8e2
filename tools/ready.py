"""`make ready`: does this computer work in class, without a network? One line says so.

Otherwise a sentence for each thing that is missing, with the command that mends it. LESSON=02 runs
the cells of that lesson; 00 without it.
"""

import os
import re
import secrets
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from normcourse.lesson import Notebook
from tools import environment

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
LAB_SECONDS = 120  # a slow computer with a virus scanner; an idle one needs 5
# Runs before the lesson's cells: whoever asks for another computer gets an error.
ALONE = """\
import sys

def _alone(event, arguments):
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if host not in ("127.0.0.1", "::1", "localhost", None):
        raise OSError(f"the cell asks the network for {host}")

sys.addaudithook(_alone)
"""


def missing() -> Iterator[str]:
    """What the lessons need and is not installed."""
    stamp = environment.STAMP
    if not stamp.is_file() or stamp.read_text() != environment.goal():
        yield (
            "The environment is not complete, or the folder was moved or copied: "
            "`make environment`, with a network."
        )
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["lab"]]
    for requirement in wanted:
        name = re.split(r"[^\w-]", requirement)[0]
        if name == "triton" and sys.platform != "linux":
            continue
        try:
            distribution(name)
        except PackageNotFoundError:
            yield (
                f"{name} is not installed, although the environment was made: delete "
                "the folder .venv, then `make environment`, with a network."
            )


def lesson_at(number: str) -> Path:
    found = sorted(NOTEBOOKS.glob(f"{number}_*.ipynb"))
    if len(found) != 1:
        known = ", ".join(path.name.partition("_")[0] for path in NOTEBOOKS.glob("*.ipynb"))
        sys.exit(f"LESSON={number}: there is no such lesson; there are {known}.")
    return found[0]


def count_cells(lesson: Path) -> int:
    return len(Notebook(lesson).code)


def unrun(lesson: Path) -> Iterator[str]:
    """The lesson runs from its first cell to its last, in a kernel that may not ask a network."""
    import nbformat  # here: without them the first check has to speak

    from tools import notebooks

    notebook = notebooks.read(lesson)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(ALONE, id="alone"))
    failure = notebooks.execute(notebook, lesson.parent, lambda: None)
    if failure:
        number = lesson.name.partition("_")[0]
        yield (
            f"Lesson {number} stops at {failure}\n"
            "Send this to whoever teaches you, with what `make environment` says."
        )


def unanswered() -> Iterator[str]:
    """JupyterLab starts as `make lab` starts it, and sends its page."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    command = [sys.executable, "-m", "tools.lab", "--no-browser", f"--ServerApp.port={port}"]
    command += [f"--IdentityProvider.token={token}"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet)
    try:
        if not answers(f"http://127.0.0.1:{port}/lab?token={token}", process):
            yield (
                f"JupyterLab did not answer within {LAB_SECONDS} s: "
                "`make lab LAB_ARGS=--no-browser` shows what it says."
            )
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()


def answers(address: str, process: subprocess.Popen) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + LAB_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), direct.open(address) as page:
            return b"JupyterLab" in page.read()
        time.sleep(0.2)
    return False


def main() -> None:
    lesson = lesson_at(os.environ.get("LESSON") or "00")
    faults = list(missing())
    if not faults:
        print("Running a lesson, and opening JupyterLab: a minute or two.", flush=True)
        faults = [*unrun(lesson), *unanswered()]
    if faults:
        sys.exit("\n".join(["This computer is not ready.", *faults]))
    number = lesson.name.partition("_")[0]
    print(
        "This computer is ready, and needs no network: the environment is complete, "
        f"the {count_cells(lesson)} cells of lesson {number} ran, JupyterLab answered."
    )


if __name__ == "__main__":
    main()
