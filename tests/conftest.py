"""What several test files need from pytest itself."""

import pytest
import torch


@pytest.fixture
def float64_as_in_the_lessons():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(default)
