"""A grid small enough for a test: an MLP of 2 layers, 12 steps, 8 runs in all."""

from normcourse import training
from normcourse.training.records import Cell, Grid, Sizes, Sweep

NAME = "small"
DIGITS = Sizes("digits", train=1000, validation=397, test=400)
RUNS = 8


def small_grid(**changes):
    names = ("rms_norm", "dyisru")
    parts = {
        "data": DIGITS,
        "norms": {name: training.CONTENDERS[name].start for name in names},
        "model": {"build": "mlp", "depth": 2, "width": 8},
        "train": {
            "steps": 12,
            "batch_size": 16,
            "optimizer": "adam",
            "warmup": 2,
            "evaluate_every": 5,
            "dtype": "float64",
        },
        "rates": [0.01, 0.1],
        "slopes": {},
        "tuning_seeds": [100],
        "seeds": [0],
        "sweeps": {
            "depth": Sweep(["rms_norm"], [1], [0]),
            "slope": Sweep(["dyisru"], [2.0], [0]),
        },
    }
    return Grid(**parts | changes)


def cell(norm="rms_norm", phase="final", value=None, lr=0.01, seed=0):
    return Cell(norm, phase, value, lr, seed)
