"""Every page of the web edition, in a desktop's and in a phone's window."""

import pytest

READY = "document.documentElement?.dataset.ready === '1'"


@pytest.fixture(scope="module")
def pages(site):
    return sorted(site.rglob("*.html"))


def test_pages_are_whole(chromium, site, pages):
    def visit(tab, page):
        tab.open(page.as_uri(), READY)
        return [*tab.errors, *tab.outgoing()]

    found = zip(pages, chromium.map(visit, pages), strict=True)
    assert {page.name: faults for page, faults in found if faults} == {}
