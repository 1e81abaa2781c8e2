"""The signals: the same everywhere, from a cache that may fail; and the network that reads them."""

import os
import random
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import matplotlib
import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import draw, training
from normcourse.training import data as source
from normlib import layers
from tests import full_disk

ROOT = Path(__file__).resolve().parents[2]
HOME = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


@pytest.fixture(scope="module")
def generated():
    """What mnist1d makes, once for all tests; global generators stay as they were."""
    random.seed(1)
    numpy.random.seed(2)
    expected = random.Random(1).random(), numpy.random.RandomState(2).rand()
    table = source._generated()
    assert (random.random(), numpy.random.rand()) == expected
    return table


@pytest.fixture
def cache(generated, monkeypatch, tmp_path):
    """The file in a cache of the test's own, and a list that grows with each generation."""
    calls = []
    monkeypatch.setenv(HOME, str(tmp_path))
    monkeypatch.setattr(source, "_generated", lambda: calls.append(1) or generated)
    version = metadata.version("mnist1d")
    return tmp_path / "normlib" / f"mnist1d-{version}.npz", calls


def test_the_signals_are_those_of_the_package(cache):
    points, labels = source.made_signals()
    assert points.shape == (5000, 40) and points.dtype == torch.float64
    assert labels[:10].tolist() == [2, 6, 4, 5, 6, 6, 6, 0, 3, 1]
    assert labels[-10:].tolist() == [8, 3, 3, 6, 1, 2, 5, 9, 6, 4]
    assert torch.bincount(labels).tolist() == [500] * 10
    # A point is of order 1 and comes from fewer than a hundred float64 operations: 1e-13 of error
    # at most. The sums have weights up to 9 and 40, and 200,000 points.
    near = {"rtol": 0, "atol": 1e-12}
    first = torch.tensor([-0.33200566736939013, -0.4719103656557236, -0.778697076293495])
    last = torch.tensor([0.6598756470890784, 0.8777343497528006, 1.1931518368352758])
    torch.testing.assert_close(points[0, :3], first, **near)
    torch.testing.assert_close(points[-1, -3:], last, **near)
    by_label = (points.sum(1) * labels).sum().item()
    by_place = (points * torch.arange(1, 41)).sum().item()
    assert by_label == pytest.approx(-80005.84092257569, abs=9 * 200_000 * 1e-12)
    assert by_place == pytest.approx(26954.09099441417, abs=40 * 200_000 * 1e-12)


def test_the_split_keeps_the_packages_test_part_and_is_standardized_by_its_training_part(cache):
    found = training.signals()
    assert [len(y) for y in (found.train_y, found.validation_y, found.test_y)] == [3000, 1000, 1000]
    assert found.train_x.dtype == torch.float64
    points, labels = source.made_signals()
    train = points[:3000]
    scaled = (points - train.mean()) / train.std()
    torch.testing.assert_close(found.train_x, scaled[:3000])
    torch.testing.assert_close(found.validation_x, scaled[3000:4000])
    torch.testing.assert_close(found.test_x, scaled[4000:])
    assert torch.equal(torch.cat([found.train_y, found.validation_y, found.test_y]), labels)
    assert len(points.unique(dim=0)) == 5000  # no test signal is a training signal, too
    images = found.images()
    assert images.validation_x.shape == (1000, 1, 40)
    assert torch.equal(images.test_x[:, 0], found.test_x)


def test_the_signals_have_the_default_dtype(cache):
    torch.set_default_dtype(torch.float32)
    dtype = training.signals().test_x.dtype
    torch.set_default_dtype(torch.float64)
    assert dtype == torch.float32


def test_signals_are_made_once_and_read_from_then_on(cache):
    file, calls = cache
    first = source.made_signals()
    assert [path.name for path in file.parent.iterdir()] == [file.name]  # no draft is left
    assert all(map(torch.equal, first, source.made_signals()))
    assert len(calls) == 1


def flipped(content):
    """One bit of a point differs."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def other_table(_):
    packed = source.io.BytesIO()
    numpy.savez(packed, signals=numpy.zeros((7, 41)))
    return packed.getvalue()


DAMAGES = {
    "empty": lambda content: b"",
    "cut in its middle": lambda content: content[: len(content) // 2],
    "cut at its end": lambda content: content[:-1],
    "another bit": flipped,
    "text": lambda content: b"not an archive",
    "another table": other_table,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_made_again(cache, damage):
    file, calls = cache
    whole = source.made_signals()
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert all(map(torch.equal, whole, source.made_signals()))
    assert len(calls) == 2
    assert file.read_bytes() == content


def no_folder(monkeypatch, tmp_path):
    (tmp_path / "normlib").write_text("a file in the way")


def full(monkeypatch, tmp_path):
    monkeypatch.setattr(*full_disk.FULL)


def no_home(monkeypatch, tmp_path):
    monkeypatch.delenv(HOME)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("hindrance", [no_folder, full, no_home])
def test_without_a_place_to_keep_them_signals_are_made_in_memory(
    cache, generated, monkeypatch, tmp_path, hindrance
):
    _, calls = cache
    hindrance(monkeypatch, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for _ in range(2):
        points, _ = source.made_signals()
        assert torch.equal(points, torch.from_numpy(generated[:, :-1]))
    assert len(calls) == 2
    left = set(tmp_path.rglob("*")) - set(before)
    assert not [path for path in left if path.is_file()]


@pytest.mark.skipif(os.name == "nt", reason="the XDG specification is not for Windows")
def test_a_relative_cache_directory_is_ignored(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert source._cache() == Path("/home/somebody/.cache/normlib")


def test_without_the_package_one_sentence_says_what_to_install(cache, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ModuleNotFoundError, match=r"mnist1d, .*: pip install -c \S+ mnist1d$"):
        training.signals()


@pytest.mark.slow
def test_making_signals_neither_warns_nor_chooses_matplotlibs_backend(tmp_path):
    script = (
        "import matplotlib; before = matplotlib.rcParams._get_backend_or_none();"
        "from normcourse import training; training.signals();"
        "assert matplotlib.rcParams._get_backend_or_none() == before"
    )
    own = {HOME: str(tmp_path), "MPLCONFIGDIR": matplotlib.get_cachedir()}  # its fonts are known
    for backend in ({}, {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}):
        command = [sys.executable, "-W", "error", "-c", script]
        environment = os.environ | own | backend
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
        (made,) = (tmp_path / "normlib").iterdir()
        made.unlink()


# The network


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, lambda channels: nn.GroupNorm(1, channels)])
def test_the_layers_of_signal_cnn_come_in_the_order_that_its_docstring_says(norm):
    x = draw(5, 1, 40)
    for residual in (False, True):
        net = training.signal_cnn(norm, depth=3, width=6, residual=residual)
        first, *others = (part for part in net.modules() if isinstance(part, nn.Conv1d))
        norms = [part for part in net.modules() if isinstance(part, nn.BatchNorm1d | nn.GroupNorm)]
        h = F.conv1d(x, first.weight, first.bias, padding=1).relu()
        for convolution, normalize in zip(others, norms, strict=False):
            if residual:
                h = h + convolution(normalize(h)).relu()
            else:
                h = normalize(convolution(h)).relu()
        h = norms[-1](h) if residual else h
        assert len(norms) == len(others) + residual
        pooled = h.unflatten(2, (5, 8)).mean(3).flatten(1)  # 40 points in five pieces of 8
        torch.testing.assert_close(net(x), pooled @ net[-1].weight.T + net[-1].bias)


def test_signal_cnn_takes_the_arguments_of_mlp():
    x = draw(5, 1, 40)
    net = training.signal_cnn(depth=3, width=6, residual=True, branch_gain=0.1)
    h = net[1](net[0](x))
    for block in net[2:4]:
        h = h + 0.1 * block.branch[0](h).relu()
    torch.testing.assert_close(net(x), net[4:](h))
    fresh = training.signal_cnn(depth=3, width=6, residual=True, skip_init=True)
    h = fresh[1](fresh[0](x))
    assert torch.equal(fresh[2:4](h), h)
    for normed, count in (("all", 4), ("branches", 3), ("last", 1)):
        net = training.signal_cnn(layers.BatchNorm1d, residual=True, normed=normed)
        assert sum(isinstance(part, layers.BatchNorm1d) for part in net.modules()) == count
    for wrong in ({"skip_init": True}, {"branch_gain": 0.1}, {"normed": "last"}):
        with pytest.raises(ValueError, match="pass residual=True"):
            training.signal_cnn(**wrong)


@pytest.mark.parametrize("init, gain", [("torch", 1 / 3), ("he", 2)])
def test_the_weights_of_signal_cnn_have_the_scale_of_their_initialization(init, gain):
    weight = training.signal_cnn(depth=2, width=64, init=init)[2].weight
    # of 12,288 draws a std is known to 1 / sqrt(24,576) of itself; five of them
    expected = (gain / (3 * 64)) ** 0.5
    assert weight.std().item() == pytest.approx(expected, rel=5 / 24_576**0.5)


def test_both_nets_learn_in_the_one_training_loop(cache):
    signals = training.signals()
    for net, data in (
        (training.signal_cnn(layers.BatchNorm1d, depth=2, width=8), signals.images()),
        (nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 10)), signals),
    ):
        run = training.train(net, data, steps=40, optimizer="adam")
        assert sum(run.losses[-10:]) < sum(run.losses[:10])
