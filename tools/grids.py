"""The grids that tools/experiments.py trains: settings alone, as their records store them."""

from collections.abc import Iterable
from dataclasses import replace

from normcourse import training
from normcourse.training.models import NORMED
from normcourse.training.records import Grid, Sizes, Sweep

SEEDS = [0, 1, 2, 3, 4]
TEN = list(range(10))  # the capstone's: its verdicts are close
FEW = [0, 1, 2]  # the sweeps' seeds: the same as the first final runs'
EVERYWHERE = [
    "none",
    "batch_norm",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "weight_norm",
    "dyt",
    "dyisru",
    "dyt_sqrt_d",
    "dyisru_sqrt_d",
    "softcap",
]
IN_ATTENTION = ["qk_norm", "rms_norm_qk"]
CURVES = ["dyt", "dyisru", "dyt_sqrt_d", "dyisru_sqrt_d"]
ADDED = ["derf", "dyt_tuned", "dyisru_tuned"]
MAIN = ["none", "batch_norm", "layer_norm", "rms_norm", "dyt", "dyisru"]
NOT_IN_POST = ["none", "weight_norm", "qk_norm"]  # without a norm in its blocks Post-LN is Pre-LN
ADAM = {
    "steps": 120,
    "batch_size": 64,
    "optimizer": "adam",
    "warmup": 10,
    "evaluate_every": 5,
    "dtype": "float64",
}
ADAM_RATES = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
SGD_RATES = [3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0]
# The slopes of DyISRU at scale 1 are starts of c = 1 / slope^2, from 100 (its author's code) to
# 0.25.
SLOPES = [0.1, 0.2, 0.5, 1.0, 2.0]
# Starts that are tuned together with the rate: the published slope, and twice and four times that
STARTS = [0.5, 1.0, 2.0]
TUNED = {"dyt_tuned": STARTS, "dyisru_tuned": STARTS}
TRANSFORMER = {"build": "transformer", "depth": 2, "width": 16, "heads": 2}
RESIDUAL = {"build": "residual_mlp", "depth": 6, "width": 32, "placement": "pre"}
PAIRS = {"steps": 600, "batch_size": 2, "optimizer": "sgd", "warmup": 0, "evaluate_every": 150}
DIGITS = Sizes("digits", train=1000, validation=397, test=400)
SIGNALS = Sizes("signals", train=3000, validation=1000, test=1000)


def grid(
    names: list[str],
    model: dict,
    train: dict = ADAM,
    *,
    rates: list[float] = ADAM_RATES,
    seeds: list[int] = SEEDS,
    tuning_seeds: tuple[int, ...] = (100, 101),
    slopes: dict[str, list[float]] | None = None,
    nudged: Sweep | None = None,
    **sweeps: list[float],
) -> Grid:
    """Settings as they stand in a record: what is trained, and with which seeds.

    Args:
        slopes: starts of DyT and DyISRU that are tuned together with the rate, {name: slopes}.
        nudged: what `nudge` returns, where training is chaotic.
        sweeps: depth, batch_size or slope and its values. A sweep over depth or batch size leaves
            out the grid's own value: its final runs stand for it.
    """
    found = {phase: swept(phase, values) for phase, values in sweeps.items()}
    if nudged is not None:
        found[training.NUDGE] = nudged
    return Grid(
        data=DIGITS,
        norms={name: training.CONTENDERS[name].start for name in names},
        model=model,
        train=train,
        rates=rates,
        slopes=slopes or {},
        tuning_seeds=list(tuning_seeds),
        seeds=seeds,
        sweeps=found,
    )


def signal_grid(nets: dict[str, dict], train: dict, **settings) -> Grid:
    """A grid of nets for the signals; their test part is read by the final runs alone."""
    named = grid([net["norm"] for net in nets.values()], {"build": "signal_cnn"}, train, **settings)
    starts = {name: named.norms[net["norm"]] for name, net in nets.items()}
    return replace(named, data=SIGNALS, norms=starts, nets=nets, test_once=True)


def swept(phase: str, values: list[float]) -> Sweep:
    return Sweep(CURVES if phase == "slope" else MAIN, values, FEW)


def nudge(
    norms: list[str], seeds: Iterable[int] = SEEDS, *, count: int = 10, lr: float | None = None
) -> Sweep:
    """A sweep that repeats the runs of these seeds from weights moved in their last place.

    So far apart the runs of two CPUs may be. lr: where it is not the tuned one.
    """
    return Sweep(norms, list(range(count)), list(seeds), lr)


OPENING_RATES = [3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]
OPENING = {"build": "mlp", "depth": 30, "init": "torch"}  # lesson 00: three norms, two repairs
DEEP_RATES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0]
NORMS = ["none", "batch_norm", "layer_norm", "rms_norm"]
SGD = {"optimizer": "sgd", "steps": 400, "warmup": 0, "evaluate_every": 100}

GRIDS = {
    "opening_plain": grid(
        NORMS,
        {**OPENING, "residual": False},
        ADAM | SGD,
        rates=OPENING_RATES,
        nudged=nudge(NORMS[1:], count=5),
    ),
    "opening_shortcut": grid(NORMS, {**OPENING, "residual": True}, ADAM | SGD, rates=OPENING_RATES),
    "opening_zero": grid(  # its control: one layer and the head are left
        ["none"],
        {**OPENING, "residual": True, "branch_gain": 0.0},
        ADAM | SGD,
        rates=OPENING_RATES,
    ),
    "opening_he": grid(
        ["none"],
        {**OPENING, "init": "he", "residual": False},
        ADAM | SGD,
        rates=OPENING_RATES,
        nudged=nudge(["none"]),
    ),
    "opening_adam": grid(
        ["none", "layer_norm"],
        {**OPENING, "residual": False},
        ADAM | SGD | {"optimizer": "adam"},
        rates=[1e-4, 3e-4, 1e-3, 3e-3],
        nudged=nudge(["layer_norm"], count=5),
    ),
    "opening_he_adam": grid(  # the right size, and the other optimizer
        ["none"],
        {**OPENING, "init": "he", "residual": False},
        ADAM | SGD | {"optimizer": "adam"},
        rates=[1e-4, 3e-4, 1e-3, 3e-3],
        nudged=nudge(["none"], count=3),
    ),
    "opening_he_long": grid(  # the right size, and sixteen times the steps
        ["none"],
        {**OPENING, "init": "he", "residual": False},
        ADAM | SGD | {"steps": 1600},
        rates=[3e-3, 1e-2, 3e-2],
        nudged=nudge(["none"], count=2),
    ),
    "capstone_mlp": grid(
        [*EVERYWHERE, "derf"],
        {"build": "mlp", "depth": 12, "width": 32},
        ADAM | {"steps": 150},  # it reaches 90 % later than the others
        seeds=TEN,
        tuning_seeds=(100, 101, 102),
        depth=[4, 8, 20],
        batch_size=[2, 4, 16, 256],
        slope=SLOPES,
    ),
    "capstone_pre": grid(
        [*EVERYWHERE, *IN_ATTENTION, "derf", "skip_init"],
        {**TRANSFORMER, "placement": "pre"},
        seeds=TEN,
        slope=SLOPES,
    ),
    "capstone_residual": grid(
        [*EVERYWHERE, *ADDED, "skip_init"], RESIDUAL, seeds=TEN, slopes=TUNED
    ),
    "capstone_post": grid(
        [*(name for name in EVERYWHERE + IN_ATTENTION if name not in NOT_IN_POST), "derf"],
        {**TRANSFORMER, "placement": "post"},
        seeds=TEN,
    ),
    "capstone_cnn": grid(
        [*EVERYWHERE, "derf"],
        {"build": "cnn", "depth": 4, "channels": 8},
        ADAM | {"evaluate_every": 10},
        seeds=TEN,
    ),
    "capstone_residual_sgd": grid(
        [*MAIN, *ADDED, "skip_init"],
        RESIDUAL,
        ADAM | {"optimizer": "sgd"},
        rates=SGD_RATES,
        seeds=TEN,
        slopes=TUNED,
    ),
    "capstone_deep": grid(  # lesson 00's net of 30 layers, with its shortcuts of full size
        [*MAIN, *ADDED, "skip_init"],
        {**OPENING, "residual": True},
        ADAM | SGD | {"steps": 100, "evaluate_every": 5},
        rates=DEEP_RATES,
        seeds=TEN,
        slopes={name: [0.2, *STARTS] for name in TUNED},
    ),
    "capstone_deep_long": grid(  # the same with four times the steps
        [*NORMS, "dyt", "derf", "skip_init"],
        {**OPENING, "residual": True},
        ADAM | SGD,
        rates=[3e-4, *DEEP_RATES[5:]],
    ),
    "capstone_deep_adam": grid(  # the same for 100 steps with the other optimizer
        ["none", "layer_norm", "dyt", "skip_init"],
        {**OPENING, "residual": True},
        ADAM | SGD | {"optimizer": "adam", "steps": 100},
        rates=DEEP_RATES[:7],
    ),
}

# Lesson 08's trial of DyT, published and with sqrt(D): each of the two differences alone
for net in ("mlp", "post", "pre", "cnn", "residual"):
    whole = GRIDS[f"capstone_{net}"]
    GRIDS[f"sqrt_d_{net}"] = grid(
        ["dyt_slope_1", "dyt_scale_sqrt_d"],
        whole.model,
        whole.train,
        seeds=TEN,
        tuning_seeds=tuple(whole.tuning_seeds),
    )

# Lesson 08's claims about norms, once more: half and twice the width, four times the steps
for net, rates in (("pre", ADAM_RATES), ("residual_sgd", SGD_RATES)):
    whole = GRIDS[f"capstone_{net}"]
    width = whole.model["width"]
    for name, change, steps in (
        ("narrow", {"width": width // 2}, 120),
        ("wide", {"width": 2 * width}, 120),
        ("long", {}, 480),
    ):
        GRIDS[f"capstone_{net}_{name}"] = grid(
            ["none", "batch_norm", "layer_norm"],
            whole.model | change,
            whole.train | {"steps": steps, "evaluate_every": steps // 3},
            rates=rates,
        )

# Lesson 00's eight nets again for 100 steps: half and twice as wide, and with 10 layers, where one
# repair is enough
for name, change in (
    ("narrow", {"width": 32}),
    ("wide", {"width": 128}),
    ("shallow", {"depth": 10}),
):
    for place, residual in (("plain", False), ("shortcut", True)):
        GRIDS[f"opening_{place}_{name}"] = grid(
            NORMS,
            OPENING | {"residual": residual} | change,
            ADAM | SGD | {"steps": 100},
            rates=OPENING_RATES,
        )

# Lesson 00b's last question: branches times a constant, and norms beside branches without one; 30
# layers with torch's weights, with He's weights, and 100 layers. All have the same rates
LAST_RATES = [3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0]
for name, change in (("", {}), ("_hes", {"init": "he"}), ("_deep", {"depth": 100})):
    for kind, names, gain in (
        ("small", ["none"], 0.2),
        ("smaller", ["none"], 0.05),
        ("full", NORMS[1:], 1.0),
    ):
        GRIDS[f"opening_{kind}{name}"] = grid(
            names,
            OPENING | {"residual": True, "branch_gain": gain} | change,
            ADAM | SGD | {"steps": 100},
            rates=LAST_RATES,
            seeds=TEN,
        )

# The decision card: lesson 00's residual network, two images a step
DEEP = OPENING | {"residual": True}
GRIDS["pairs_deep"] = grid(
    ["none", "skip_init", "batch_norm", "layer_norm"],
    DEEP,
    ADAM | PAIRS,
    rates=[1e-4, 3e-4, 1e-3, 1e-2, 1e-1],
    nudged=nudge(["none", "batch_norm"], count=3),
)

# Lesson 01a: three layers, two images a step; then BatchNorm's outputs with another gradient
GRIDS["pairs_depth_3"] = grid(
    ["none", "batch_norm", "layer_norm"],
    DEEP | {"depth": 3},
    ADAM | PAIRS,
    rates=[3e-3, 1e-2, 3e-2, 1e-1],
    nudged=nudge(["batch_norm"], count=3),
)
GRIDS["pairs_mild"] = grid(
    ["batch_norm_mild"],
    DEEP | {"depth": 3},
    ADAM | PAIRS,
    rates=[1e-2, 3e-2, 1e-1, 3e-1],
    nudged=nudge(["batch_norm_mild"], count=3),
)

# Lesson 02a: one residual MLP with its norms in four places, as Post-LN with a warm-up as well;
# each again with four times the steps at the two high rates
PLACED = {"build": "residual_mlp", "depth": 12, "width": 32, "init": "xavier"}
NO_WARMUP = ADAM | {"steps": 200, "evaluate_every": 25, "warmup": 0}
FOUR_TIMES = NO_WARMUP | {"steps": 800, "evaluate_every": 100}
FIVE = (100, 101, 102, 103, 104)  # starts at each rate: the lesson shows them all


def placed(placement: str, train: dict, rates: list[float], nudged: Sweep | None = None) -> Grid:
    model = PLACED | {"placement": placement}
    return grid(["layer_norm"], model, train, rates=rates, tuning_seeds=FIVE, nudged=nudged)


# Between the rates that Post-LN bears and those that it does not, its training is chaotic.
CHAOS: dict = {"norms": ["layer_norm"], "seeds": FIVE}
for placement in ("pre", "post", "output", "sandwich"):
    short = nudge(**CHAOS, lr=1e-2) if placement == "post" else None
    long = nudge(**CHAOS, lr=1e-2, count=3) if placement == "post" else None
    GRIDS[f"placement_{placement}"] = placed(placement, NO_WARMUP, [1e-3, 3e-3, 1e-2, 3e-2], short)
    GRIDS[f"placement_{placement}_long"] = placed(placement, FOUR_TIMES, [1e-2, 3e-2], long)
for name, rate in (("low", 1e-2), ("high", 3e-2)):  # the two rates where Post-LN fails
    quickly = NO_WARMUP | {"warmup": 50}
    GRIDS[f"placement_warmup_{name}"] = placed("post", quickly, [rate], nudge(**CHAOS, lr=rate))
    slowly = FOUR_TIMES | {"warmup": 200}
    long = nudge(**CHAOS, lr=rate, count=3) if name == "low" else None
    GRIDS[f"placement_warmup_{name}_long"] = placed("post", slowly, [rate], long)

# Lesson 06a: 15 blocks of two layers that start at He's size, with norms, curves and neither; then
# the same blocks with torch's small weights, and both with the other optimizer
BLOCKS = {"build": "residual_mlp", "depth": 15, "width": 64, "placement": "pre", "init": "he"}
SMALL_BLOCKS = BLOCKS | {"init": "torch"}
BY_SGD = ADAM | {"optimizer": "sgd", "warmup": 0, "steps": 100, "evaluate_every": 25}
BY_ADAM = BY_SGD | {"optimizer": "adam"}
AT_ZERO = ["rms_norm", "skip_init", "fixup"]
WIDE_RATES = [1e-2, 3e-2, 1e-1, 3e-1, 1.0]
WIDE_ADAM_RATES = [3e-4, 1e-3, 3e-3, 1e-2, 3e-2]
GRIDS["without_norms"] = grid(
    [*AT_ZERO, "dyt", "dyisru", "derf"],
    BLOCKS,
    BY_SGD,
    rates=WIDE_RATES,
    nudged=nudge(["skip_init"], count=2),
)
GRIDS["without_none"] = grid(
    ["none"],
    BLOCKS,
    BY_SGD,
    rates=[1e-6, 3e-6, 1e-5, 2e-5, 3e-5, 1e-4, 1e-3],
    nudged=nudge(["none"], count=2),
)
GRIDS["without_none_clipped"] = grid(
    ["none"], BLOCKS, BY_SGD | {"clip": 1.0}, rates=[3e-2, 1e-1, 3e-1, 1.0]
)
GRIDS["without_adam"] = grid(
    ["none", "rms_norm", "skip_init"],
    BLOCKS,
    BY_ADAM,
    rates=WIDE_ADAM_RATES,
    nudged=nudge(["none"], count=2),
)
GRIDS["without_small"] = grid(["none", "rms_norm"], SMALL_BLOCKS, BY_SGD, rates=WIDE_RATES)
GRIDS["without_small_adam"] = grid(
    ["none", "rms_norm"], SMALL_BLOCKS, BY_ADAM, rates=WIDE_ADAM_RATES
)
for name, change, longer in (
    ("narrow", {"width": 32}, {}),
    ("wide", {"width": 128}, {}),
    ("long", {}, {"steps": 400, "evaluate_every": 100}),
    ("deep", {"depth": 30}, {}),
):
    GRIDS[f"without_small_{name}"] = grid(
        ["none", "rms_norm"], SMALL_BLOCKS | change, BY_SGD | longer, rates=[3e-2, 1e-1]
    )
    if name != "deep":  # at He's size nothing holds 3^30
        GRIDS[f"without_norms_{name}"] = grid(
            AT_ZERO, BLOCKS | change, BY_SGD | longer, rates=[3e-2, 1e-1]
        )
        GRIDS[f"without_none_{name}"] = grid(
            ["none"], BLOCKS | change, BY_SGD | longer, rates=[1e-5, 2e-5]
        )

# which of its norms bear the rate at which the small weights are lost; beside a shortened gradient
for name, change in (("", {}), ("_narrow", {"width": 32}), ("_wide", {"width": 128})):
    small = SMALL_BLOCKS | change
    for normed in NORMED:
        GRIDS[f"without_{normed}{name}"] = grid(
            ["none", "rms_norm"] if normed == "all" else ["rms_norm"],
            small | {"normed": normed},
            BY_SGD,
            rates=[3e-1],
            tuning_seeds=FIVE,
            seeds=[],
        )
    GRIDS[f"without_clipped{name}"] = grid(
        ["none"], small, BY_SGD | {"clip": 1.0}, rates=[3e-1], tuning_seeds=FIVE, seeds=[]
    )

# Lesson 06b: lesson 00's net with shortcuts and a curve for a norm; the bound in the blocks and
# before the head apart, and a line that does not learn its slope, at a rate that a line does not
# bear
APART = ["line", "tanh_last_line", "line_last_tanh", "dyt", "line_held"]
AT_1 = ADAM | SGD | {"steps": 100}
BOUNDS: dict[str, tuple[dict, dict, list[float]]] = {
    "": ({}, AT_1, [1.0, 3.0]),
    "_narrow": ({"width": 32}, AT_1, [1.0]),
    "_wide": ({"width": 128}, AT_1, [1.0]),
    "_shallow": ({"depth": 15}, AT_1, [1.0]),
    "_deep": ({"depth": 60}, AT_1, [1.0]),
    "_long": ({}, AT_1 | {"steps": 400}, [1.0]),
}
for name, (model, train, rates) in BOUNDS.items():
    GRIDS[f"bounds{name}"] = grid(
        APART,
        DEEP | model,
        train,
        rates=rates,
        tuning_seeds=FIVE,
        seeds=[],
        slopes={norm: [0.1] for norm in APART},
    )
# without a bound: the gradient shortened to 1, and the other optimizer
for name, train, rates in (
    ("clipped", AT_1 | {"clip": 1.0}, [1.0]),
    ("adam", AT_1 | {"optimizer": "adam"}, [3e-3]),
):
    GRIDS[f"bounds_{name}"] = grid(
        ["line"],
        DEEP,
        train,
        rates=rates,
        tuning_seeds=FIVE,
        seeds=[],
        slopes={"line": [0.1]},
    )

# Lesson 03b: which gains does weight decay pull? Norms on both sides of each branch, and a last one
DECAY = [f"decay_{which}" for which in (*training.DECAYED, "offset")]
BOTH_SIDES = {"build": "residual_mlp", "depth": 4, "width": 32, "placement": "sandwich"}
BY_ADAMW = ADAM | {"optimizer": "adamw", "steps": 400, "evaluate_every": 400, "weight_decay": 1.0}
DECAYING: dict[str, tuple[dict, dict]] = {
    "": ({}, {}),
    "_weak": ({}, {"weight_decay": 0.1}),
    "_strong": ({}, {"weight_decay": 3.0}),
    "_strongest": ({}, {"weight_decay": 10.0}),
    "_narrow": ({"width": 16}, {}),
    "_wide": ({"width": 64}, {}),
    "_long": ({}, {"steps": 1600, "evaluate_every": 1600}),
}
for name, (model, train) in DECAYING.items():
    GRIDS[f"decay{name}"] = grid(
        DECAY,
        BOTH_SIDES | model,
        BY_ADAMW | train,
        rates=[1e-2] if name else [1e-3, 3e-3, 1e-2, 3e-2, 1e-1],
        tuning_seeds=FIVE,
        seeds=[],
    )

# the last gain and the head multiply each other: each of them pulled alone, both, and neither
GRIDS["decay_head"] = grid(
    [f"decay_{which}" for which in ("matrices", "last", *training.WITHOUT_HEAD)],
    BOTH_SIDES,
    BY_ADAMW | {"weight_decay": 10.0},
    rates=[1e-2],
    tuning_seeds=FIVE,
    seeds=[],
)

# Lesson 00: accuracy against depth on the signals. Without a norm there are three initializations:
# that of the networks with one (torch's scale, biases 0), He's, and torch's own draws
BY_DEPTH = {
    "steps": 600,
    "batch_size": 64,
    "optimizer": "adam",
    "warmup": 30,
    "decay_to_zero": True,
    "evaluate_every": 150,
    "dtype": "float32",
}
IN_DEPTH = {
    "none": {"norm": "none"},
    "he": {"norm": "none", "init": "he"},
    "batch_norm": {"norm": "torch_batch_norm"},
    "group_norm": {"norm": "torch_group_norm_1"},
    "default": {"norm": "none", "init": "default"},
}


def at_depths(depths: Iterable[int], *, plain: Iterable[str], residual: Iterable[str]) -> dict:
    """Nets named kind_plain_depth and kind_residual_depth, with their settings."""
    return {
        f"{kind}_{place}_{depth}": IN_DEPTH[kind] | {"depth": depth, "residual": place != "plain"}
        for place, kinds in (("plain", plain), ("residual", residual))
        for kind in kinds
        for depth in depths
    }


GRIDS["depth"] = signal_grid(
    at_depths((2, 4, 8, 16), plain=IN_DEPTH, residual=IN_DEPTH),
    BY_DEPTH,
    rates=[1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1],
)

# One change at a time, at two depths
VARIED = at_depths(
    (4, 16),
    plain=("default", "he", "batch_norm"),
    residual=("none", "batch_norm", "group_norm"),
)
LASTING = at_depths((4, 16), plain=("default", "he"), residual=("none", "batch_norm"))
NARROW, WIDE = ({name: net | {"width": width} for name, net in VARIED.items()} for width in (8, 32))
SCALED = {  # branches of two initializations, times a constant
    f"{kind}_{name}_{depth}": {**IN_DEPTH[kind], "depth": depth, "residual": True, "branch_gain": c}
    for kind in ("none", "he")
    for depth in (4, 16)
    for name, c in (("by_depth", depth**-0.5), ("tenth", 0.1))
}
VARIATIONS: dict[str, tuple[dict, list[float], dict]] = {
    "constants": (SCALED, [1e-2, 3e-2, 1e-1, 3e-1], {}),
    "narrow": (NARROW, [3e-3, 1e-2, 3e-2, 1e-1], {}),
    "wide": (WIDE, [3e-3, 1e-2, 3e-2], {}),
    "sgd": (VARIED, [3e-2, 1e-1, 3e-1, 1.0], {"optimizer": "sgd_momentum"}),
    "no_warmup": (VARIED, [3e-3, 1e-2, 3e-2, 1e-1], {"warmup": 0}),
    "long": (LASTING, [3e-3, 1e-2, 3e-2], {"steps": 2400, "evaluate_every": 600}),
}
for name, (nets, rates, train) in VARIATIONS.items():
    GRIDS[f"depth_{name}"] = signal_grid(
        nets, BY_DEPTH | train, rates=rates, tuning_seeds=(100,), seeds=FEW
    )

# Its control: as many parameters as 16 layers of width 16 have, in fewer and wider layers
GRIDS["depth_width"] = signal_grid(
    {
        f"batch_norm_residual_{depth}": IN_DEPTH["batch_norm"]
        | {"depth": depth, "residual": True, "width": width}
        for depth, width in ((2, 57), (4, 35))
    },
    BY_DEPTH,
    rates=[3e-3, 1e-2, 3e-2, 1e-1],
)

# Lesson 01: accuracy by learning rate with three optimizers, eight convolutions on the signals
AT_RATES = {
    "none": {"norm": "none", "init": "he", "depth": 8},
    "batch_norm": {"norm": "torch_batch_norm", "init": "he", "depth": 8},
}
for optimizer, rates in (
    ("sgd", [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]),
    ("sgd_momentum", [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
    ("adam", [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
):
    GRIDS[f"rates_{optimizer}"] = signal_grid(
        AT_RATES,
        BY_DEPTH | {"optimizer": optimizer, "warmup": 0, "steps": 300, "evaluate_every": 300},
        rates=rates,
        tuning_seeds=(0, 1, 2),
        seeds=[],
    )

# The noise of BatchNorm's statistics: every step sees all 1,000 digits
GRIDS["noise"] = grid(
    ["none", "torch_batch_norm", "batch_norm_ghost"],
    {"build": "mlp", "depth": 6, "width": 32},
    ADAM | SGD | {"batch_size": 1000, "dtype": "float32"},
    rates=[0.1, 0.2, 0.5, 1.0, 2.0, 5.0],
    tuning_seeds=(0, 1, 2, 3, 4),
    seeds=[],
)
