"""What `make pages` makes is what stands in the repository."""

import pytest

from tests.failing import fail, same_as_made
from tools import pages


@pytest.mark.parametrize("maker", pages.MAKERS, ids=lambda maker: maker.__name__.split(".")[-1])
def test_it_is_what_make_pages_makes(maker):
    for path, content in maker.made().items():
        same_as_made(path, content)


def test_only_the_order_of_rows_is_free(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("| a |\n| b |\n\nFirst.\nSecond.\n", "utf-8")
    same_as_made(page, "| b |\n| a |\n\nFirst.\nSecond.\n")
    with pytest.raises(pytest.fail.Exception):
        same_as_made(page, "| a |\n| b |\n\nSecond.\nFirst.\n")


def test_no_page_is_left_that_nothing_makes():
    for path in pages.no_longer_made():
        fail(path, "no lesson links to it", run="make pages")


def test_of_a_long_line_the_message_shows_where_it_differs(tmp_path):
    page = pages.REFERENCE / "claims.md"
    long = page.read_text("utf-8").replace("A241", "A242")
    with pytest.raises(pytest.fail.Exception, match=r"A241.* makes .*A242.*Run: make pages"):
        same_as_made(page, long)
