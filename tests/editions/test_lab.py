"""The reader's copy in a real JupyterLab: at the moment of the guess the answer is not in sight."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress

import pytest

from editions.predictions import COMMIT, WHY
from normcourse.lesson import Notebook
from tests.editions.conftest import ROOT
from tools import learner

LESSON = "01_batch_norm"
WINDOW = (1366, 768)
START_SECONDS = 60
# The folds over a prediction's answer, by their first line.
FOLDS = f"""[...document.querySelectorAll(".jp-Notebook summary")].filter((summary) =>
  {json.dumps([COMMIT, WHY])}.includes(summary.textContent))"""
WORDS_SHOWN = f"""{FOLDS}.map((summary) =>
  [...summary.parentElement.children].slice(1).some((part) => part.checkVisibility()))"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A folder with the lesson as `make lab` gives it to a reader."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "my").mkdir()
    content = learner.learners_form(ROOT / "notebooks" / f"{LESSON}.ipynb")
    (folder / "my" / f"{LESSON}.ipynb").write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def lab(copy):
    """The address of a JupyterLab that shows this folder; it ends with the tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--ServerApp.port={port}"]
    command += [f"--ServerApp.root_dir={copy}", "--IdentityProvider.token=", "--allow-root"]
    command += [f"--LabApp.workspaces_dir={copy / 'workspaces'}"]
    own = {"JUPYTER_CONFIG_DIR": copy / "config", "JUPYTER_DATA_DIR": copy / "data"}
    environment = os.environ | {name: str(folder) for name, folder in own.items()}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api", process)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def wait_for(address, process):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(address):
            return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not answer at {address}")


def markdown_cells(copy):
    """The sources of the cells that answer predictions, and how many Markdown cells there are."""
    lesson = Notebook(copy / "my" / f"{LESSON}.ipynb")
    inside = [cell for prediction in lesson.predictions for cell in prediction.cells]
    return [cell.source for cell in inside if cell in lesson.markdown], len(lesson.markdown)


def test_answers_are_closed_and_open_with_a_click_formulas_and_all(tab, lab, copy):
    folded, count = markdown_cells(copy)
    assert len(folded) >= 3
    rendered = (
        f"document.querySelectorAll('.jp-MarkdownCell .jp-RenderedMarkdown').length >= {count}"
    )
    tab.size(*WINDOW).open(f"{lab}/lab/tree/my/{LESSON}.ipynb", rendered)
    tab.wait(f"{FOLDS}.length === {len(folded)}")
    assert tab.run(WORDS_SHOWN) == [False] * len(folded)
    number = next(place for place, source in enumerate(folded) if "$" in source)
    summary = f"{FOLDS}[{number}]"
    tab.run(f"{summary}.scrollIntoView({{block: 'center'}})")
    # Cells above it are still being drawn and push it down: it is clicked where it comes to rest.
    height = f"{summary}.getBoundingClientRect().y"
    tab.run("[window.rests, window.last] = [0, null]")
    same = f"(window.last === (window.last = {height}) ? window.rests + 1 : 0)"
    tab.wait(f"(window.rests = {same}) > 20")
    box = tab.run(f"{summary}.getBoundingClientRect().toJSON()")
    for kind in ("press", "release"):
        tab.mouse(kind, box["x"] + 20, box["y"] + box["height"] / 2)
    tab.wait(f"{WORDS_SHOWN}[{number}]")
    assert tab.run(WORDS_SHOWN) == [place == number for place in range(len(folded))]
    opened = f"{summary}.parentElement"
    tab.wait(f"{opened}.querySelector('mjx-container') !== null")
    assert "$" not in tab.run(f"{opened}.innerText")
