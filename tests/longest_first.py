"""Start the longest files first (`-p tests.longest_first`):
no worker shall end alone with a long one.

How long each file took is kept in pytest's cache. Before the first run the notebooks come first,
those of many cells before those of few; then the test files, those of few tests, which are the long
ones, first.
"""

from collections import Counter

CACHE = "normlib/seconds"


def file_of(nodeid: str) -> str:
    return nodeid.split("::")[0]


def pytest_configure(config):
    config.option.loadscopereorder = False  # xdist's own order: the file of most tests first
    config.pluginmanager.register(Stopwatch(config))


class Stopwatch:
    def __init__(self, config):
        self.config = config
        self.seconds = Counter()

    def pytest_collection_modifyitems(self, items):
        recorded = self.config.cache.get(CACHE, {})
        tests = Counter(file_of(item.nodeid) for item in items)

        def place(item):
            file = file_of(item.nodeid)
            is_test = not file.endswith(".ipynb")
            unknown = (is_test, tests[file] if is_test else -tests[file])
            return (True, -recorded[file]) if file in recorded else (False, *unknown)

        items.sort(key=place)

    def pytest_runtest_logreport(self, report):
        self.seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self):
        if not hasattr(self.config, "workerinput"):  # the workers' reports come to the main process
            recorded = self.config.cache.get(CACHE, {})
            self.config.cache.set(CACHE, recorded | self.seconds)
