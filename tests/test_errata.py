"""The page of errata has each correction of the changelog, under its lesson."""

import pytest

from tools import errata

CHANGELOG = """## [Unreleased]

- Lesson 03 is shorter.

### Corrections

- 03: first.
- 00a: second: with a colon.

## [0.1.0]

### Corrections

- 03: third, of an earlier version.

### Added

- 03: no correction.
"""


def test_corrections_are_sorted_by_lesson_and_keep_their_order():
    assert errata.corrections(CHANGELOG) == {
        "00a": ["second: with a colon."],
        "03": ["first.", "third, of an earlier version."],
    }


def test_each_lesson_has_its_heading_and_link():
    lines = errata.page(CHANGELOG).splitlines()
    place = lines.index(
        "## [03 · RMSNorm: which half of LayerNorm does the work?](../03_rms_norm.ipynb)"
    )
    assert lines[place + 2 : place + 4] == ["- first.", "- third, of an earlier version."]


def test_a_lesson_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="corrects lesson 00c, and there is none: name the lesson"):
        errata.page(CHANGELOG.replace("00a", "00c"))
