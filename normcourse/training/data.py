"""Real data that is in the box: the digits that come with scikit-learn."""

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import torch
from torch import Tensor

SPLIT_SEED = 0
TRAIN = 1000  # of 1,797 digits
VALIDATION = 397  # the other 400 are for the test
DIGITS = "datasets/data/digits.csv.gz"  # in scikit-learn's wheel
PICTURE = (1, 8, 8)  # channels, height, width of a digit


@dataclass(frozen=True)
class Data:
    """Labelled pictures: x (N, 64) in the default dtype, y (N,) of labels 0 to 9."""

    train_x: Tensor
    train_y: Tensor
    validation_x: Tensor
    validation_y: Tensor
    test_x: Tensor
    test_y: Tensor

    def images(self) -> "Data":
        """The same with x as images (N, C, H, W)."""
        return replace(
            self,
            train_x=self.train_x.unflatten(1, PICTURE),
            validation_x=self.validation_x.unflatten(1, PICTURE),
            test_x=self.test_x.unflatten(1, PICTURE),
        )


def digits() -> Data:
    """scikit-learn's bundled digits in a fixed split; mean 0 and std 1 over the training pixels.

    Source: UCI Optical Recognition of Handwritten Digits, test part (Alpaydin & Kaynak 1998).
    """
    pixels, labels = bundled_digits()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    sizes = (TRAIN, VALIDATION, len(labels) - TRAIN - VALIDATION)
    return _standardized(pixels[order], labels[order], sizes)


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


def _standardized(x: Tensor, y: Tensor, sizes: tuple[int, int, int]) -> Data:
    train = x[: sizes[0]]
    x = ((x - train.mean()) / train.std()).to(torch.get_default_dtype())
    train_x, validation_x, test_x = x.split(sizes)
    train_y, validation_y, test_y = y.split(sizes)
    return Data(train_x, train_y, validation_x, validation_y, test_x, test_y)
