"""What several test files of the course need from pytest itself."""

import pytest


@pytest.fixture(scope="module")
def data(float64_as_in_the_lessons):
    """The digits in float64, as the lessons train on them."""
    from normcourse import training

    return training.digits()
