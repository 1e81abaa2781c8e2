"""A grid small enough for a test: an MLP of 2 layers, 12 steps, 8 runs in all."""

from normcourse import training

NAME = "small"
DIGITS = {"name": "digits", "train": 1000, "validation": 397, "test": 400}
RUNS = 8


def small_grid(**changes):
    names = ("rms_norm", "dyisru")
    return {
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
            "depth": {"norms": ["rms_norm"], "values": [1], "seeds": [0]},
            "slope": {"norms": ["dyisru"], "values": [2.0], "seeds": [0]},
        },
    } | changes


def cell(norm="rms_norm", phase="final", value=None, lr=0.01, seed=0):
    return {"norm": norm, "phase": phase, "value": value, "lr": lr, "seed": seed}
