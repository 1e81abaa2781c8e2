"""The tests of the editions in a browser: `make test-editions`. `make test` leaves them out."""

from pathlib import Path

import pytest

from tools.browser import Browser, BrowserError, find_chromium

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "web"


def pytest_ignore_collect(collection_path, config):
    """Only who names this folder gets these tests: they need a browser and the built pages."""
    asked = any("editions" in argument for argument in config.args)
    return None if asked else True


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").is_file():
        pytest.exit("build/web is missing: `make test-editions` builds it first.", returncode=1)
    return SITE


@pytest.fixture(scope="session")
def chromium():
    try:
        program = find_chromium()
    except BrowserError as error:
        pytest.exit(str(error), returncode=1)
    with Browser(program) as browser:
        yield browser


@pytest.fixture
def tab(chromium):
    with chromium.tab() as opened:
        yield opened.size(1280, 900)


@pytest.fixture(scope="session")
def axe():
    """The script of axe-core, which finds what keeps people out of a page."""
    return (ROOT / "build" / "libraries" / "tests" / "axe.min.js").read_text("utf-8")
