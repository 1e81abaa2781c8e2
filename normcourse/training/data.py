"""Real data: scikit-learn's digits, which are in the box, and CIFAR-10 for those who have its folder."""

import importlib.util
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import torch
from torch import Tensor

SPLIT_SEED, TRAIN, VALIDATION = 0, 1000, 397  # of 1,797 digits; the other 400 are for the test
DIGITS = "datasets/data/digits.csv.gz"  # in scikit-learn's wheel
FOLDER = "cifar-10-batches-py"
SIZES = {64: (1, 8, 8), 3072: (3, 32, 32)}  # a digit, a picture of CIFAR-10
ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}


@dataclass(frozen=True)
class Data:
    """Labelled pictures: x (N, C*H*W) in the default dtype, y (N,) of labels 0 to 9."""

    train_x: Tensor
    train_y: Tensor
    validation_x: Tensor
    validation_y: Tensor
    test_x: Tensor
    test_y: Tensor

    @property
    def size(self) -> tuple[int, int, int]:
        """Channels, height and width of a picture."""
        return SIZES[self.train_x[0].numel()]

    def images(self) -> "Data":
        """The same with x as images (N, C, H, W)."""
        names = ("train_x", "validation_x", "test_x")
        return replace(self, **{name: getattr(self, name).unflatten(1, self.size) for name in names})


def digits() -> Data:
    """scikit-learn's bundled digits in a fixed split; mean 0 and std 1 over the training pixels.

    Source: UCI Optical Recognition of Handwritten Digits, test part (Alpaydin & Kaynak 1998).
    """
    pixels, labels = bundled_digits()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    sizes = (TRAIN, VALIDATION, len(labels) - TRAIN - VALIDATION)
    return _standardized(pixels[order], labels[order], sizes)


def bundled_digits() -> tuple[Tensor, Tensor]:
    """Pixels (1797, 64) float64 from 0 to 16 and labels (1797,), as scikit-learn's load_digits gives them.

    The file is read where the wheel put it: importing scikit-learn takes longer than most cells.

    Raises: ModuleNotFoundError (scikit-learn is not installed, or does not hold the file any more).
    """
    package = importlib.util.find_spec("sklearn")
    file = package and Path(package.origin).parent / DIGITS
    if not file or not file.is_file():
        raise ModuleNotFoundError(
            f"The digits are scikit-learn's file {DIGITS}, which was not found. "
            "Install scikit-learn: pip install -c constraints.txt scikit-learn",
            name="sklearn",
        )
    table = torch.from_numpy(numpy.loadtxt(file, delimiter=","))  # 64 pixels and the label in each row
    return table[:, :-1], table[:, -1].long()


def cifar10(root: str | Path) -> Data:
    """CIFAR-10 from the folder that torchvision or the authors' archive leaves in root; no download.

    The last tenth of the training pictures is for validation. Mean 0 and std 1 over the training pixels.

    Raises: FileNotFoundError (a batch is not there), ValueError (a file of another format).
    Source: Krizhevsky 2009, "Learning multiple layers of features from tiny images", python version.
    """
    folder = Path(root) / FOLDER
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise FileNotFoundError(
            f"{folder} has no {', '.join(missing)}. Unpack the python version of CIFAR-10 there yourself."
        )
    batches = [_cifar_batch(folder / name) for name in names]
    x = torch.cat([pixels for pixels, _ in batches]).double()
    y = torch.cat([labels for _, labels in batches])
    test = len(batches[-1][1])
    validation = (len(y) - test) // 10
    return _standardized(x, y, (len(y) - test - validation, validation, test))


def _standardized(x: Tensor, y: Tensor, sizes: tuple[int, ...]) -> Data:
    train = x[: sizes[0]]
    x = ((x - train.mean()) / train.std()).to(torch.get_default_dtype())
    parts = zip(x.split(sizes), y.split(sizes), strict=True)
    return Data(*(part for pair in parts for part in pair))


class _OnlyArrays(pickle.Unpickler):
    """A pickle may call any function; this one may build dicts, lists, strings and numpy arrays."""

    def find_class(self, module: str, name: str):
        module = module.replace("numpy.core", "numpy._core")  # the name before numpy 2
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _cifar_batch(path: Path) -> tuple[Tensor, Tensor]:
    """Pixels (N, 3072) uint8 and labels (N,) of one file: a pickled dict with b"data" and b"labels"."""
    try:
        with path.open("rb") as file:
            batch = _OnlyArrays(file, encoding="bytes").load()
        pixels, labels = batch[b"data"], numpy.asarray(batch[b"labels"])
        right = pixels.dtype == numpy.uint8 and pixels.shape == (len(labels), 3 * 32 * 32)
        if not right or not set(labels.tolist()) <= set(range(10)):
            raise ValueError(f"pixels {pixels.dtype} {pixels.shape}, {len(labels)} labels")
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path.name} is no batch of CIFAR-10's python version: {error!r}.") from error
    return torch.from_numpy(pixels), torch.from_numpy(labels).long()
