"""What several test files need from pytest itself."""

import os

import pytest


def pytest_configure(config):
    """Let Triton interpret kernels where there is no GPU.

    It decides this when it is first imported, which torch.compile may do.
    """
    if getattr(config.option, "numprocesses", None):
        return  # the workers run the tests, and import torch
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def operators_at_every_size(monkeypatch):
    """The inputs of tests are small: fused would leave them to functional."""
    monkeypatch.setattr("normlib.fused.operators.SMALL", -1)


@pytest.fixture(scope="module")
def float64_as_in_the_lessons():
    import torch

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(default)
