"""The plugin orders whole files, keeps the order inside them, and learns from the last run."""

from types import SimpleNamespace

import pytest

from tests import longest_first

NODES = [
    "tests/many.py::a",
    "tests/many.py::b",
    "tests/one.py::a",
    "notebooks/short.ipynb::x",
    "notebooks/long.ipynb::y",
    "notebooks/long.ipynb::x",
]


class Cache(dict):
    def set(self, key, value):
        self[key] = value


@pytest.fixture
def stopwatch():
    return longest_first.Stopwatch(SimpleNamespace(cache=Cache()))


def order(stopwatch):
    items = [SimpleNamespace(nodeid=node) for node in NODES]
    stopwatch.pytest_collection_modifyitems(items)
    return [NODES.index(item.nodeid) for item in items]


def test_before_the_first_run_notebooks_come_first_and_then_files_of_few_tests(stopwatch):
    assert order(stopwatch) == [4, 5, 3, 2, 0, 1]


def test_after_a_run_new_files_come_first_and_then_the_longest(stopwatch):
    for node, duration in [(NODES[0], 1.0), (NODES[1], 2.0), (NODES[2], 2.5), (NODES[4], 4.0)]:
        report = SimpleNamespace(nodeid=node, duration=duration)
        stopwatch.pytest_runtest_logreport(report)
    stopwatch.pytest_sessionfinish()
    assert order(stopwatch) == [3, 4, 5, 0, 1, 2]


def test_a_worker_leaves_the_record_to_the_main_process(stopwatch):
    stopwatch.config.workerinput = {}
    stopwatch.pytest_sessionfinish()
    assert stopwatch.config.cache == {}


def test_the_order_of_xdist_is_switched_off():
    option = SimpleNamespace(loadscopereorder=True)
    plugins = SimpleNamespace(register=lambda plugin: None)
    longest_first.pytest_configure(SimpleNamespace(option=option, pluginmanager=plugins))
    assert option.loadscopereorder is False
