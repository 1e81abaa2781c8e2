"""What the lessons train: small data sets, small models with a pluggable norm, one loop.

The capstone's grid is built from the same parts: `trial` does one of its runs, `load_record` reads
the rest. From the ground up: data, models -> decay -> contenders, looks, stacked -> loop,
swaps, records -> trials.
"""

import normcourse.computing  # noqa: F401 (one torch thread)
from normcourse.jsonfile import RecordError
from normcourse.training.contenders import CONTENDERS, MODELS, build
from normcourse.training.data import SOURCES, Data, digits, signals
from normcourse.training.decay import DECAYED, WITHOUT_HEAD, decay_groups, gains_by_place
from normcourse.training.looks import accuracy, by_depth
from normcourse.training.loop import OPTIMIZERS, Record, train
from normcourse.training.models import (
    Attention,
    Block,
    FixupBranch,
    cnn,
    mlp,
    residual_mlp,
    seeded,
    signal_cnn,
    transformer,
)
from normcourse.training.records import NUDGE, load_record, nudged, plan, sweep, tuned
from normcourse.training.stacked import (
    StackedLinear,
    stacked_accuracy,
    stacked_mlp,
    train_stacked,
)
from normcourse.training.swaps import rows_read, swapped
from normcourse.training.trials import all_runs, same_verdict, trial

__all__ = [
    "CONTENDERS",
    "DECAYED",
    "MODELS",
    "NUDGE",
    "OPTIMIZERS",
    "SOURCES",
    "WITHOUT_HEAD",
    "Attention",
    "Block",
    "Data",
    "FixupBranch",
    "Record",
    "RecordError",
    "StackedLinear",
    "accuracy",
    "all_runs",
    "build",
    "by_depth",
    "cnn",
    "decay_groups",
    "digits",
    "gains_by_place",
    "load_record",
    "mlp",
    "nudged",
    "plan",
    "residual_mlp",
    "rows_read",
    "same_verdict",
    "seeded",
    "signal_cnn",
    "signals",
    "stacked_accuracy",
    "stacked_mlp",
    "swapped",
    "sweep",
    "train",
    "train_stacked",
    "transformer",
    "trial",
    "tuned",
]
