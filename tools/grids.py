"""The grids that tools/experiments.py trains: settings alone, as their records store them."""

from normcourse import training

SEEDS = [0, 1, 2, 3, 4]
FEW = [0, 1, 2]  # the sweeps' seeds: the same as the first final runs'
EVERYWHERE = [
    *("none", "batch_norm", "layer_norm", "rms_norm", "group_norm", "weight_norm"),
    *("dyt", "dyisru", "dyt_sqrt_d", "dyisru_sqrt_d", "softcap"),
]
IN_ATTENTION = ["qk_norm", "rms_norm_qk"]
CURVES = ["dyt", "dyisru", "dyt_sqrt_d", "dyisru_sqrt_d"]
MAIN = ["none", "batch_norm", "layer_norm", "rms_norm", "dyt", "dyisru"]
ADAM = {"steps": 120, "batch_size": 64, "optimizer": "adam", "warmup": 10, "evaluate_every": 5}
ADAM_RATES = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
SGD_RATES = [3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0]
TRANSFORMER = {"build": "transformer", "depth": 2, "width": 16, "heads": 2}
RESIDUAL = {"build": "residual_mlp", "depth": 6, "width": 32, "placement": "pre"}
DIGITS = {"name": "digits", "train": 1000, "validation": 397, "test": 400}


def grid(
    names: list[str],
    model: dict,
    train: dict,
    rates: list[float],
    tuning_seeds: tuple[int, ...],
) -> dict:
    """Settings as they stand in a record: what is trained, and with which seeds."""
    return {
        "norms": {name: training.CONTENDERS[name].start for name in names},
        "model": model,
        "train": {**train, "dtype": "float64"},
        "rates": rates,
        "tuning_seeds": list(tuning_seeds),
        "seeds": SEEDS,
    }


def capstone(
    names: list[str],
    model: dict,
    train: dict = ADAM,
    rates: list[float] = ADAM_RATES,
    tuning_seeds: tuple[int, ...] = (100, 101),
    **sweeps: list,
) -> dict:
    """A grid on the digits, and sweeps over the values given."""
    swept = {
        phase: {"norms": CURVES if phase == "slope" else MAIN, "values": values, "seeds": FEW}
        for phase, values in sweeps.items()
    }
    return {"data": DIGITS, **grid(names, model, train, rates, tuning_seeds), "sweeps": swept}


# A sweep over depth or batch size leaves out the grid's own value: its final runs stand for it. The slopes of
# DyISRU at scale 1 are starts of c = 1 / slope^2, from 100 (its author's code) to 0.25. Without a norm in the
# blocks Post-LN is Pre-LN, so those runs stand in capstone_pre alone.
SLOPES = [0.1, 0.2, 0.5, 1.0, 2.0]
GRIDS = {
    "transformer_norms": grid(
        ["layer_norm", "rms_norm", "dyt", "dyisru"],
        {"build": "transformer", "depth": 2, "width": 32, "heads": 4, "placement": "pre"},
        {"steps": 120, "batch_size": 64, "optimizer": "adam", "warmup": 10, "evaluate_every": 20},
        [3e-3, 1e-2, 3e-2],
        (100, 101),
    ),
    "capstone_mlp": capstone(
        EVERYWHERE,
        {"build": "mlp", "depth": 12, "width": 32},
        ADAM | {"steps": 150},  # it reaches 90 % later than the others
        tuning_seeds=(100, 101, 102),
        depth=[4, 8, 20],
        batch_size=[2, 4, 16, 256],
        slope=SLOPES,
    ),
    "capstone_pre": capstone(EVERYWHERE + IN_ATTENTION, {**TRANSFORMER, "placement": "pre"}, slope=SLOPES),
    "capstone_residual": capstone(EVERYWHERE, RESIDUAL),
    "capstone_post": capstone(
        [name for name in EVERYWHERE + IN_ATTENTION if name not in ("none", "weight_norm", "qk_norm")],
        {**TRANSFORMER, "placement": "post"},
    ),
    "capstone_cnn": capstone(
        EVERYWHERE, {"build": "cnn", "depth": 4, "channels": 8}, ADAM | {"evaluate_every": 10}
    ),
    "capstone_residual_sgd": capstone(MAIN, RESIDUAL, ADAM | {"optimizer": "sgd"}, SGD_RATES),
}


def on_cifar10(name: str, data: training.Data) -> dict:
    """A capstone's grid on CIFAR-10: the same but for the pictures."""
    sizes = {part: len(getattr(data, f"{part}_y")) for part in ("train", "validation", "test")}
    settings = GRIDS[name]
    model = {**settings["model"], "size": list(data.size)}
    return settings | {"data": {"name": "cifar10", **sizes}, "model": model}
