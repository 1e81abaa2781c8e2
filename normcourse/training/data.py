"""The course's data: digits that come with scikit-learn, and signals made by mnist1d."""

import contextlib
import importlib.util
import io
import os
import random
import warnings
import zipfile
import zlib
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy
import torch
from torch import Tensor

from normcourse import atomic

SPLIT_SEED = 0
TRAIN = 1000  # of 1,797 digits
VALIDATION = 397  # the other 400 are for the test
DIGITS = "datasets/data/digits.csv.gz"  # in scikit-learn's wheel
SIGNALS = (3000, 1000, 1000)  # train, validation, test
POINTS = 40  # of a signal


@dataclass(frozen=True)
class Data:
    """Labeled samples: x (N, D) in the default dtype, y (N,) of labels 0 to 9.

    shape is what a sample has for a convolution, channels first: (1, 8, 8) for a digit of 64
    pixels, (1, 40) for a signal.
    """

    train_x: Tensor
    train_y: Tensor
    validation_x: Tensor
    validation_y: Tensor
    test_x: Tensor
    test_y: Tensor
    shape: tuple[int, ...] = (1, 8, 8)

    def images(self) -> "Data":
        """The same with x as images (N, C, H, W), or (N, C, L) for signals."""
        return replace(
            self,
            train_x=self.train_x.unflatten(1, self.shape),
            validation_x=self.validation_x.unflatten(1, self.shape),
            test_x=self.test_x.unflatten(1, self.shape),
        )


def digits() -> Data:
    """scikit-learn's bundled digits in a fixed split; mean 0 and std 1 over the training pixels.

    Source: UCI Optical Recognition of Handwritten Digits, test part (Alpaydin & Kaynak 1998).
    """
    pixels, labels = bundled_digits()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    sizes = (TRAIN, VALIDATION, len(labels) - TRAIN - VALIDATION)
    return _standardized(pixels[order], labels[order], sizes, shape=(1, 8, 8))


def signals() -> Data:
    """MNIST-1D in a fixed split; mean 0 and std 1 over the points of the training signals.

    The package mnist1d makes the 5,000 signals from its own seed; nothing is downloaded. Its test
    part is the test part here, and the last quarter of its training part is for validation.

    Source: Greydanus & Kobak 2024, Scaling Down Deep Learning with MNIST-1D (arXiv 2011.14439).
    """
    points, labels = made_signals()
    return _standardized(points, labels, SIGNALS, shape=(1, POINTS))


SOURCES = {"digits": digits, "signals": signals}


def bundled_digits() -> tuple[Tensor, Tensor]:
    """Pixels (1797, 64) float64 from 0 to 16 and labels (1797,), as load_digits gives them.

    The file is read where the wheel put it: importing scikit-learn takes longer than most cells.

    Raises: ModuleNotFoundError (scikit-learn is not installed, or does not hold the file any more).
    """
    package = importlib.util.find_spec("sklearn")
    file = Path(package.origin).parent / DIGITS if package and package.origin else None
    if not file or not file.is_file():
        raise ModuleNotFoundError(
            f"The digits are scikit-learn's file {DIGITS}, which was not found. "
            "Install scikit-learn: pip install -c constraints.txt scikit-learn",
            name="sklearn",
        )
    # 64 pixels and the label in each row
    table = torch.from_numpy(numpy.loadtxt(file, delimiter=","))
    return table[:, :-1], table[:, -1].long()


def made_signals() -> tuple[Tensor, Tensor]:
    """Signals (5000, 40) float64 and labels (5000,), the 1,000 of mnist1d's test part last.

    Making them takes seconds, so they are kept in the user's cache directory. If the file there is
    missing, damaged or cannot be written, they are made again, and nobody is bothered.

    Raises: ModuleNotFoundError (mnist1d is not installed).
    """
    try:
        version = metadata.version("mnist1d")
    except metadata.PackageNotFoundError:
        raise ModuleNotFoundError(
            "The signals are made by the package mnist1d, which was not found. "
            "Install it: pip install -c constraints.txt mnist1d",
            name="mnist1d",
        ) from None
    file = _cache() / f"mnist1d-{version}.npz"
    table = _kept(file)
    if table is None:
        table = _generated()
        _keep(table, file)
    # 40 points and the label in each row
    whole = torch.from_numpy(table)
    return whole[:, :-1], whole[:, -1].long()


def _cache() -> Path:
    """The course's folder in the user's cache directory; nothing is created here."""
    if os.name == "nt":
        given, usual = os.environ.get("LOCALAPPDATA", ""), "~/AppData/Local"
    else:
        given, usual = os.environ.get("XDG_CACHE_HOME", ""), "~/.cache"
    # a relative path is to be ignored, says the XDG specification
    base = given if os.path.isabs(given) else os.path.expanduser(usual)
    return Path(base) / "normlib"


def _kept(file: Path) -> numpy.ndarray | None:
    """The table in the file, or None unless it is whole; the zip's checksum tells."""
    try:
        packed = io.BytesIO(file.read_bytes())  # of a damaged file numpy would leave a handle open
        with numpy.load(packed, allow_pickle=False) as stored:
            table = stored["signals"]
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        return None
    whole = table.shape == (sum(SIGNALS), POINTS + 1) and table.dtype == numpy.float64
    return table if whole else None


def _keep(table: numpy.ndarray, file: Path) -> None:
    """Write the file if that is possible; two processes that do so write the same bytes."""
    if not file.is_absolute():  # no home directory is known
        return
    packed = io.BytesIO()
    numpy.savez(packed, signals=table)
    with contextlib.suppress(OSError):
        atomic.write(file, packed.getvalue())


def _generated() -> numpy.ndarray:
    """mnist1d's signals and labels; its generator seeds numpy's and random's global state."""
    of_numpy, of_random = numpy.random.get_state(), random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports pyplot and requests, too
        try:
            from mnist1d.data import get_dataset_args, make_dataset

            made = make_dataset(get_dataset_args())
        finally:
            numpy.random.set_state(of_numpy)
            random.setstate(of_random)
    points = numpy.concatenate([made["x"], made["x_test"]])
    labels = numpy.concatenate([made["y"], made["y_test"]])
    return numpy.column_stack([points, labels])


def _standardized(
    x: Tensor, y: Tensor, sizes: tuple[int, int, int], shape: tuple[int, ...]
) -> Data:
    train = x[: sizes[0]]
    x = ((x - train.mean()) / train.std()).to(torch.get_default_dtype())
    train_x, validation_x, test_x = x.split(sizes)
    train_y, validation_y, test_y = y.split(sizes)
    return Data(train_x, train_y, validation_x, validation_y, test_x, test_y, shape)
