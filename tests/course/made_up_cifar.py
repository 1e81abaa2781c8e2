"""A made-up CIFAR-10: the files and the format of its python version, ten pictures a file."""

import pickle

import numpy

from normcourse.training.data import FOLDER


def batch(number, rows=10):
    generator = numpy.random.default_rng(number)
    pixels = generator.integers(0, 256, (rows, 3072), dtype=numpy.uint8)
    return {b"batch_label": b"made up", b"labels": [i % 10 for i in range(rows)], b"data": pixels}


def write_cifar(root, **changed):
    """Six batches under root; changed has other contents by file name."""
    (root / FOLDER).mkdir(exist_ok=True)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        content = changed.get(name, batch(number))
        data = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
        (root / FOLDER / name).write_bytes(data)
