"""How far an answer to an exercise may be off: by default, and where a check says otherwise.

A second list beside the checks, so that a tolerance does not grow in silence: whoever changes one
says here why. That the slips of a check lie outside of it is tried in test_checks.py.
"""

import ast
from pathlib import Path

from normcourse import checks

HOME = Path(checks.__file__).parent
NAMES = {"rtol", "atol"}
JUDGES = {"expect", "expect_all", "calls", "same_gradients", "allclose"}

TOLERANCES = {
    # what an answer is allowed that nobody speaks of: float64, a few operations, then gradients
    "probes.calls": ["atol=1e-12", "rtol=1e-09"],
    "probes.same_gradients": ["atol=1e-11", "rtol=1e-08"],
    "verdict.expect": ["atol=1e-12", "rtol=1e-09"],
    "verdict.expect_all": ["atol=1e-12", "rtol=1e-09"],
    # by pencil and paper: two or three digits will do
    "batch_norm.rate_for_double": ["rtol=0.001"],
    "batch_norm.walk_back": ["atol=0.006", "rtol=0.001"],
    "cuda_timing.least_time": ["rtol=0.01"],
    "cuda_timing.lie": ["rtol=0.01"],
    "gradient_derivation.pencil": ["atol=0.006", "rtol=0.01"],
    "layer_norm.back_to_a_row": ["atol=0.005"] * 4 + ["rtol=0.005"] * 4,
    "layer_norm.by_hand": ["atol=0.005"] * 2 + ["rtol=0.005"] * 2,
    "logits.largest_logit": ["rtol=0.001"],
    "published_speed.dyt_by_bytes": ["rtol=0.015"],
    "rms_norm.part_of_the_mean": ["rtol=0.015"],
    "rms_norm.variance_left": ["rtol=0.015"],
    # in float32 or bfloat16: the roundings are counted beside the call
    "cuda_timing._far_from_zero": ["atol=0.01"],
    "cuda_timing._in_float32": ["atol=1e-06", "rtol=1e-05"],
    "cuda_timing.layer_norm_kernel": ["atol=2 ** (-9)", "rtol=2 ** (-7)"],
    "layer_norm._check_large_mean": ["atol=0.01", "atol=0.01", "rtol=0.0", "rtol=0.0"],
    "published_speed.row_sums": ["rtol=1e-05"],
    "why_normalize.factor": ["rtol=FLOAT32", "rtol=FLOAT32"],
    "rms_norm_in_models.gemma_rms_norm": ["atol=1e-05", "atol=1e-06", "rtol=0.0001", "rtol=1e-05"],
    # float64 after many operations, or at a large mean
    "batch_norm._right_far_away": ["atol=1e-06", "rtol=0.0"],
    "fair_comparison.fair": ["rtol=1e-06"],
    "rms_norm_in_models.fold_network": ["atol=1e-10", "rtol=1e-08"],
    "rms_norm.ruin": ["atol=1e-08", "rtol=1e-06"],  # LayerNorm takes a large offset out again
    # closer than expect: small results, whole numbers, arguments that must not change
    "probes._equal": ["atol=0", "rtol=0"],
    "published_speed.backward_bytes": ["rtol=1e-12"],
    # a median of disturbed times; whether a norm of one's own is known, or has one scale
    "cuda_timing.stopwatch": ["atol=0.0", "rtol=0.01"],
    "why_normalize._not_known": ["atol=0.001 * factor.abs().item()", "rtol=0.001"],
    "why_normalize._divided": ["atol=0.001", "atol=1e-06", "rtol=0.001"],
    # 1e-5 under a fourth root is 0.06: the row times 0.1 then leaves smaller by up to 0.042
    "why_normalize._one_scale": ["atol=0.05", "rtol=0.001", "rtol=0.05"],
    # they only recognize a mistake; the shape and dtype of the answer alone are compared
    "dyt._no_tanh": ["rtol=0.001"],
    "products_and_steps.units": ["rtol=1e-06"],
}


def found():
    """{file.function: the tolerances in it and its defaults}, but for those handed through."""
    tolerances = {}
    for path in sorted(HOME.glob("*.py")):
        module = ast.parse(path.read_text("utf-8")).body
        constants = {
            ast.unparse(node.targets[0]): ast.unparse(node.value)
            for node in module
            if isinstance(node, ast.Assign)
        }
        for function in filter(lambda node: isinstance(node, ast.FunctionDef), module):
            written = [
                f"{keyword.arg}={constants.get(value := ast.unparse(keyword.value), value)}"
                for call in ast.walk(function)
                if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in JUDGES
                for keyword in call.keywords
                if keyword.arg in NAMES and ast.unparse(keyword.value) != keyword.arg
            ]
            written += [
                f"{name}={default}" for name, default in defaults(function) if name in NAMES
            ]
            if written:
                tolerances[f"{path.stem}.{function.name}"] = sorted(written)
    return tolerances


def defaults(function: ast.FunctionDef):
    """(name, default) of each argument of a function that has one."""
    given = function.args
    by_place = given.args[len(given.args) - len(given.defaults) :]
    pairs = [*zip(by_place, given.defaults, strict=True)]
    pairs += zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return [(argument.arg, ast.unparse(value)) for argument, value in pairs if value is not None]


def test_no_tolerance_of_a_check_grows_in_silence():
    now = found()
    for where in sorted(now.keys() | TOLERANCES):
        assert now.get(where) == TOLERANCES.get(where), (
            f"normcourse/checks, {where}: {now.get(where)}, listed in tests/course/"
            f"test_check_tolerances.py: {TOLERANCES.get(where)}. Put it back, or list the new one"
        )
