"""The tests of the editions in a browser: `make test-editions`. `make test` leaves them out."""

import shutil
from pathlib import Path

import pytest

from tools.browser import Browser, BrowserError, find_chromium

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "web"
COPIED = "02_layer_norm"


def pytest_ignore_collect(collection_path, config):
    """Only who names this folder gets these tests: they need a browser and the built pages."""
    asked = any("editions" in argument for argument in config.args)
    return None if asked else True


def pytest_itemcollected(item):
    """A test's limit is another one here: the first of a file visits every page."""
    item.add_marker(pytest.mark.timeout(1800))


def pytest_sessionstart(session):
    """What is missing is said once, before any test."""
    if not (SITE / "index.html").is_file():
        pytest.exit("build/web is missing: `make test-editions` builds it first.", returncode=1)
    try:
        find_chromium()
    except BrowserError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def site():
    return SITE


@pytest.fixture(scope="module")
def copied(site, tmp_path_factory):
    """A folder with one deck and with what it needs, for tests that change them."""
    folder = tmp_path_factory.mktemp("copied")
    shutil.copytree(site / "_static", folder / "_static")
    (folder / "lectures").mkdir()
    shutil.copy(site / "lectures" / f"{COPIED}.html", folder / "lectures")
    return folder


@pytest.fixture(scope="session")
def chromium():
    with Browser(find_chromium()) as browser:
        yield browser


@pytest.fixture
def tab(chromium):
    with chromium.tab() as opened:
        yield opened.size(1280, 900)


@pytest.fixture(scope="session")
def axe():
    """The script of axe-core, which finds what keeps people out of a page."""
    return (ROOT / "build" / "libraries" / "tests" / "axe.min.js").read_text("utf-8")
