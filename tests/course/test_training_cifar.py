"""CIFAR-10 is read from its own format, and nothing but arrays is unpickled."""

import pickle

import numpy
import pytest
import torch

from normcourse import training
from tests.course.made_up_cifar import batch, write_cifar


def test_pictures_come_in_the_order_of_the_files_standardized_and_split(tmp_path):
    write_cifar(tmp_path)
    data = training.cifar10(tmp_path)
    assert [len(y) for y in (data.train_y, data.validation_y, data.test_y)] == [45, 5, 10]
    assert data.size == (3, 32, 32) and data.images().test_x.shape == (10, 3, 32, 32)
    pixels = numpy.concatenate([batch(number)[b"data"] for number in range(5)])[:45].astype(float)
    raw = torch.from_numpy(pixels)
    wanted = ((raw - raw.mean()) / raw.std()).to(torch.get_default_dtype())
    torch.testing.assert_close(data.train_x, wanted)
    assert data.test_y.tolist() == list(range(10))
    # red of the pixel in row 1, column 2 is byte 34; green follows 1,024 bytes later
    assert data.images().train_x[3, 1, 1, 2] == data.train_x[3, 1024 + 34]


class Evil:
    def __reduce__(self):
        return print, ("run by the pickle",)


def labels(*values):
    return {b"data": batch(0)[b"data"], b"labels": list(values)}


BAD = {
    "a function": pickle.dumps({b"data": Evil()}),
    "no pickle": b"GIF89a",
    "cut off": pickle.dumps(batch(0))[:100],
    "empty": b"",
    "no labels": {b"data": batch(0)[b"data"]},
    "a label too few": labels(*range(9)),
    "label 10": labels(*range(1, 11)),
    "another width": {b"data": batch(0)[b"data"][:, :3000], b"labels": [0] * 10},
    "another type": {b"data": batch(0)[b"data"].astype("float32"), b"labels": [0] * 10},
    "a list": [1, 2],
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_another_format_is_refused_by_name(tmp_path, capsys, content):
    write_cifar(tmp_path, data_batch_2=content)
    with pytest.raises(ValueError, match="data_batch_2 is no batch of CIFAR-10's python version"):
        training.cifar10(tmp_path)
    assert capsys.readouterr().out == ""


def test_nothing_is_downloaded(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no data_batch_1, .*test_batch. Unpack"):
        training.cifar10(tmp_path)
