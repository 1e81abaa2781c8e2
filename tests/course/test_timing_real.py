"""The one self-check that really measures: 1.3 times slower on this machine's own processor.

No time of this test is compared with a number. The contenders run next to each other in every
round, on data that fits the first cache, and the median of the paired ratios decides: half of the
rounds would have to be disturbed one-sidedly to move it. Rounds go on until a decision is reached,
which costs a loaded machine time and not the verdict. (With six busy threads beside it on two
cores: right in 12 of 12 runs, 3 s each.)
"""

import pytest
import torch

from normcourse import timing
from tests.course.simulated_machines import draw


def workload(times):
    def call(x):
        for _ in range(times):
            x = torch.tanh(x)
        return x

    return call


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.clock
def test_a_planted_slow_down_is_found_and_a_twin_is_not(one_thread):
    contenders = {"one": workload(40), "twin": workload(40), "slow": workload(52)}
    for rounds in (150, 600, 2400):
        result = timing.measure(contenders, draw, moved_bytes=1024, cache="warm", rounds=rounds)
        found = result.compare("slow", "one", margin=0.1), result.compare("twin", "one", margin=0.1)
        if "undecided" not in found:
            break
    assert found == ("slower", "equal"), (
        result.ratio("slow", "one", 0.999),
        result.ratio("twin", "one", 0.999),
    )
