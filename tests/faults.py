"""Planted faults: each with the test that has to turn red. `make test-faults` tries them all.

Before something is deleted they show what would be missed. Most are a text that occurs once in its
file, and what takes its place. Where the text of a lesson is not to be relied on, a fault is a
function of the stored file. A fault whose text was reworded is renewed here: tests/test_faults.py.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass


class DoesNotApply(Exception):
    """The file no longer has what the fault would change; the text says what to do."""


@dataclass(frozen=True)
class Fault:
    what: str
    file: str
    old: str | Callable[[str], str]  # the text that is replaced, or a function of the whole file
    new: str | None
    test: str  # a file, a node, or pytest's arguments

    def planted(self, text: str) -> str:
        """The file's text with the fault; DoesNotApply if it has no place in it, or several."""
        if isinstance(self.old, str) and self.new is not None:
            if (count := text.count(self.old)) != 1:
                raise DoesNotApply(
                    f"{self.file} has {self.old!r} {count} times, expected once. "
                    "Renew the fault in tests/faults.py."
                )
            return text.replace(self.old, self.new)
        assert callable(self.old)
        changed = self.old(text)
        if changed == text:
            raise DoesNotApply(f"{self.file}: {self.old.__name__} finds nothing to change.")
        return changed

    def has(self, words: Iterable[str]) -> bool:
        """Whether one of the words is in it, or there are none."""
        told = f"{self.what} {self.file} {self.test}"
        return not words or any(word in told for word in words)


# Functions of a stored notebook or record


def _of_cells(change: Callable[[dict], bool]) -> Callable[[str], str]:
    """The notebook after the first cell in which `change` has found something to change."""

    def changed(text: str) -> str:
        notebook = json.loads(text)
        any(change(cell) for cell in notebook["cells"])
        return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"

    changed.__name__ = change.__name__
    return changed


def _first_replaced(cell: dict, pattern: str, new: str | Callable[[re.Match], str]) -> bool:
    source = "".join(cell["source"])
    cell["source"], count = re.subn(pattern, new, source, count=1, flags=re.S)
    return bool(count)


@_of_cells
def a_decimal_after_a_prediction(cell: dict) -> bool:
    """0.37 becomes 0.8637, which no cell prints."""
    if cell["cell_type"] != "markdown" or not cell["id"].endswith("-read"):
        return False
    return _first_replaced(cell, r"\b0\.(\d\d)\b", r"0.86\1")


@_of_cells
def a_sign_below_a_tag(cell: dict) -> bool:
    is_text = cell["cell_type"] == "markdown"
    return is_text and _first_replaced(cell, r"(\*\*\[EQ-[^\n]+\n\$\$\n[^$]*?) - ", r"\1 + ")


@_of_cells
def a_digit_of_an_output(cell: dict) -> bool:
    for output in cell.get("outputs", []):
        printed = "".join(output.get("text", ""))
        if re.search(r"\d", printed):
            output["text"] = re.sub(r"\d", lambda digit: str(9 - int(digit[0])), printed, count=1)
            return True
    return False


@_of_cells
def an_alt_text_emptied(cell: dict) -> bool:
    for output in cell.get("outputs", []):
        if "image/png" in output.get("metadata", {}):
            output["metadata"]["image/png"]["alt"] = ""
            return True
    return False


def a_run_left_out(text: str) -> str:
    """The first of a record."""
    return re.sub(r'\n  \{"norm": [^\n]*\n', "\n", text, count=1)


def a_row_lost(text: str) -> str:
    """The last row of a page's last table."""
    rows = re.findall(r"^\| .*\n", text, re.M)
    return text.replace(rows[-1], "")


# The faults

WRONG = "test_a_wrong_answer_is_named"  # in the tests of checks

FUNCTIONAL = [
    Fault(
        "BatchNorm's running variance is the biased one",
        "normlib/functional/norms.py",
        "unbiased = var * (count / (count - 1))",
        "unbiased = var",
        "tests/library/test_functional.py::test_the_batch_is_divided_by_the_biased_variance_and_the_buffer_keeps_the_unbiased_one",
    ),
    Fault(
        "InstanceNorm's running mean is that of the first sample",
        "normlib/functional/norms.py",
        "update_running(running_mean, mean.flatten(1).mean(0), momentum)",
        "update_running(running_mean, mean.flatten(1)[0], momentum)",
        "tests/library/test_functional.py::test_running_statistics_equal_torchs_after_three_steps",
    ),
    Fault(
        "RMSNorm's own eps is that of the half type",
        "normlib/functional/norms.py",
        "eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps",
        "eps = torch.finfo(input.dtype).eps",
        "tests/library/test_functional.py::test_rms_norms_own_eps_is_torchs",
    ),
    Fault(
        "a rounded mean is not taken off a second time",
        "normlib/functional/arithmetic.py",
        "centred = centred - correction",
        "centred = centred - 0 * correction",
        "tests/library/test_accuracy.py::test_output_and_every_gradient_are_within_twice_torchs_error",
    ),
    Fault(
        "a variance that overflows gives 0",
        "normlib/functional/arithmetic.py",
        "return xhat.where(var != math.inf, math.nan)",
        "return xhat",
        "tests/library/test_accuracy.py::test_a_variance_that_overflows_gives_nan_as_in_torch",
    ),
    Fault(
        "channels_last is lost",
        "normlib/functional/arithmetic.py",
        "return output.movedim(1, -1).contiguous().movedim(-1, 1)",
        "return output.contiguous()",
        "tests/library/test_functional.py::test_an_output_lies_in_memory_as_torchs",
    ),
    Fault(
        "an input made in inference mode cannot be saved",
        "normlib/functional/arithmetic.py",
        "return wide.clone() if is_kept else wide",
        "return wide",
        "tests/library/test_fx.py::test_an_input_made_in_inference_mode_before_layers_that_learn",
    ),
    Fault(
        "one value per group is taken",
        "normlib/functional/validation.py",
        "if input.numel() == num_groups:",
        "if input.numel() < num_groups:",
        "tests/library/test_bad_input.py::test_one_value_per_channel_has_no_variance",
    ),
    Fault(
        "Derf's shift has the other sign",
        "normlib/functional/pointwise.py",
        "savable(input) + accumulate(shift)",
        "savable(input) - accumulate(shift)",
        "tests/library/test_derf.py::test_values_by_hand",
    ),
]

LAYERS = [
    Fault(
        "the first batch counts twice in the average of all",
        "normlib/layers/norms.py",
        "return 1 / (int(self.num_batches_tracked) + 1)",
        "return 1 / (int(self.num_batches_tracked) + 2)",
        "tests/library/test_layers.py::test_three_training_steps_and_an_evaluation_are_torchs_or_the_formulas",
    ),
    Fault(
        "BatchNorm counts a batch before the call that may raise",
        "normlib/layers/norms.py",
        "        uses_batch = self.training or (mean is None and var is None)\n",
        "        uses_batch = self.training or (mean is None and var is None)\n"
        "        if tracks and input.shape[0] == 1:\n"
        "            self.num_batches_tracked.add_(1)\n",
        "tests/library/test_bad_layers.py::test_a_call_that_raises_leaves_parameters_and_buffers_alone",
    ),
    Fault(
        "torch.fx looks into a layer",
        "normlib/layers/base.py",
        'return tracer.create_proxy("call_module", tracer.path_of_module(layer), (input,), {})',
        "return forward(layer, input)",
        "tests/library/test_fx.py::test_inside_a_traced_model_a_layer_is_one_node",
    ),
    Fault(
        "the state dict has torch's old version",
        "normlib/layers/norms.py",
        "_version = 2",
        "_version = 1",
        "tests/library/test_layers.py::test_a_state_dict_loads_strictly_both_ways",
    ),
]

GRADIENTS = [
    Fault(
        "LayerNorm's gradient lacks the mean of g",
        "normlib/gradients/norms.py",
        "projected = projected - g.mean(over, keepdim=True)",
        "projected = projected - 0 * g.mean(over, keepdim=True)",
        "tests/library/test_gradients.py::test_equal_to_autograd",
    ),
    Fault(
        "the gradient of v keeps its part along v",
        "normlib/gradients/norms.py",
        "dv = (h - u * (h * u).sum(others, keepdim=True)) / length",
        "dv = h / length",
        "tests/library/test_gradients.py::test_weight_norm_may_keep_a_middle_dimension",
    ),
    Fault(
        "a rounded mean is not taken off a second time in the gradient",
        "normlib/gradients/arithmetic.py",
        "x = x - x.mean(dims, keepdim=True)  # once more",
        "x = x + 0  # once more",
        "tests/library/test_gradients.py::test_a_large_mean_is_taken_off_twice",
    ),
    Fault(
        "the length of DyISRU's gradient overflows",
        "normlib/gradients/arithmetic.py",
        "return torch.hypot(x, knee)",
        "return (x.square() + knee.square()).sqrt()",
        "tests/library/test_gradients.py::test_a_square_that_overflows_does_not_reach_the_gain",
    ),
    Fault(
        "LayerNorm's Jacobian is RMSNorm's",
        "normlib/gradients/jacobians.py",
        "lost = lost + 1",
        "lost = lost + 0",
        "tests/library/test_jacobians.py::test_jacobian_equals_autograd_on_the_formula",
    ),
]

FUSED = [
    Fault(
        "fused RMSNorm forgets eps",
        "normlib/fused/cpu.py",
        "torch.rsqrt(mean_square.add_(eps), out=rstd[place[0]])",
        "torch.rsqrt(mean_square, out=rstd[place[0]])",
        "tests/library/test_fused.py::test_rms_norm_without_weight_over_two_dimensions_and_its_default_eps",
    ),
    Fault(
        "the gain's gradient is added up over the blocks in float32",
        "normlib/fused/cpu.py",
        "dw = x.new_zeros(width, dtype=torch.float64)",
        "dw = x.new_zeros(width, dtype=torch.float32)",
        "tests/library/test_fused.py::test_sums_over_blocks_are_in_float64",
    ),
    Fault(
        "a gain that is broadcast stays in half precision",
        "normlib/fused/dispatch.py",
        "wide = parameter.to(torch.promote_types(input.dtype, torch.float32))",
        "wide = parameter",
        "tests/library/test_fused_transforms.py::test_gradients_of_a_half_gain_for_channels_are_rounded_once",
    ),
    Fault(
        "forward mode loses its tangent",
        "normlib/fused/operators.py",
        "return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in given)",
        "return False",
        "tests/library/test_fused_transforms.py::test_vmap_func_and_forward_mode_give_what_functional_gives",
    ),
    Fault(
        "a tensor made in inference mode cannot be saved by the operators",
        "normlib/fused/operators.py",
        "return tensor.clone() if tensor is not None and tensor.is_inference() else tensor",
        "return tensor",
        "tests/library/test_fused_transforms.py::test_tensors_of_inference_mode",
    ),
]

KERNELS = [
    Fault(
        "the kernel's rounded mean is not taken off a second time",
        "normlib/kernels/rows.py",
        "centred = tl.where(inside, centred - correction[:, None], 0.0)",
        "centred = tl.where(inside, centred, 0.0)",
        "tests/library/test_kernels_rows.py::test_hard_inputs",
    ),
    Fault(
        "the kernel's gradient lacks the mean of g",
        "normlib/kernels/rows.py",
        "projected -= (tl.sum(g, 1) / D)[:, None]",
        "projected -= 0 * (tl.sum(g, 1) / D)[:, None]",
        "tests/library/test_kernels_rows.py::test_gradients_agree_with_the_closed_form",
    ),
    Fault(
        "a wide row is read without its shift",
        "normlib/kernels/wide.py",
        "x = x - shift[:, None] - mean[:, None]",
        "x = x - mean[:, None]",
        "tests/library/test_kernels_rows.py::test_a_wide_row_in_pieces",
    ),
    Fault(
        "the gain's gradient is multiplied by the gain",
        "normlib/kernels/pointwise.py",
        "dw += dy * value",
        "dw += g * value",
        "tests/library/test_kernels_pointwise.py::test_gradients_agree_with_the_closed_form",
    ),
    Fault(
        "DyISRU's slope has another power",
        "normlib/kernels/curves.py",
        "by_x = scale * inverse * (shrink * shrink * shrink)",
        "by_x = scale * inverse * (shrink * shrink)",
        "tests/library/test_kernels_pointwise.py::test_gradients_agree_with_the_closed_form",
    ),
]

SURGERY = [
    Fault(
        "the model is looked at in training",
        "normlib/surgery/running.py",
        "model.eval()",
        "model.train()",
        "tests/library/test_surgery_fit.py::test_the_model_runs_in_eval_without_gradients_and_is_left_as_it_was",
    ),
    Fault(
        "the search for the knee goes the wrong way",
        "normlib/surgery/fit.py",
        "if error(left) < error(right):",
        "if error(left) > error(right):",
        "tests/library/test_surgery_fit.py::test_no_other_knee_gain_and_bias_is_better",
    ),
    Fault(
        "a norm's bias is lost in the fold",
        "normlib/surgery/folding.py",
        "moved = wide @ _exact(norm.bias)",
        "moved = wide @ (0 * _exact(norm.bias))",
        "tests/library/test_fold.py::test_the_answers_stay_and_every_norm_reads_centred_rows",
    ),
    Fault(
        "a frozen layer learns after the surgery",
        "normlib/surgery/transplant.py",
        "if frozen and all(frozen):",
        "if frozen and not all(frozen):",
        "tests/library/test_surgery.py::test_a_frozen_layer_stays_frozen",
    ),
]

CHECKS = [
    Fault(
        "an answer in float32 is refused",
        "normcourse/checks/verdict.py",
        "return max(rtol, FLOAT32) if is_float32(got) and not isinstance(want, Tensor) else rtol",
        "return rtol",
        "tests/course/test_verdict.py::test_a_number_in_float32_is_judged_by_what_float32_can_keep",
    ),
    Fault(
        "a test has no time limit after a check",
        "normcourse/checks/guard.py",
        "signal.setitimer(getattr(signal, timer), *left)",
        "signal.setitimer(getattr(signal, timer), 0)",
        "tests/course/test_verdict.py::test_the_time_limit_of_a_test_goes_on_after_a_check",
    ),
    Fault(
        "buffers may be shared with the net that was passed in",
        "normcourse/checks/probes.py",
        "for tensor in (*copied.parameters(), *copied.buffers()):",
        "for tensor in copied.parameters():",
        "tests/course/test_probes.py::test_a_copy_shares_nothing",
    ),
    Fault(
        "a forbidden function is not seen under its longer name",
        "normcourse/checks/probes.py",
        'return any(name == mean or name.endswith(f"_{mean}") for name in self.used)',
        "return mean in self.used",
        "tests/course/test_probes.py::test_what_the_page_forbids_is_refused",
    ),
    Fault(
        "a word that forbids nothing is taken",
        "normcourse/checks/probes.py",
        'return mean == "autograd" or any(',
        "return True or any(",
        "tests/course/test_probes.py::test_a_word_that_would_forbid_nothing_is_an_error",
    ),
    Fault(
        "normlib's own gradient answers exercise 02.3",
        "normcourse/checks/layer_norm.py",
        'forbid(fitting, "autograd", "normlib.gradients", "layer_norm", "backward")',
        'forbid(fitting, "autograd", "layer_norm", "backward")',
        f"tests/course/test_checks_layer_norm.py::{WRONG}[row_gradient: normlib's]",
    ),
    Fault(
        "exercise 03b.3 has no parameter without axes",
        "normcourse/checks/scale_decay_gain.py",
        '    block.register_parameter("gain", nn.Parameter(torch.ones(())))\n',
        "",
        f"tests/course/test_checks_scale_decay_gain.py::{WRONG}[decay_groups: a number lost]",
    ),
    Fault(
        "numbers drawn anew at each call answer exercise 06a.2",
        "normcourse/checks/without_norms.py",
        'if numbers(call(student, blocks=blocks), "what you return") != given:',
        "if not given:",
        f"tests/course/test_checks_without_norms.py::{WRONG}[numbers_in_front: drawn]",
    ),
    Fault(
        "a column with a large mean is not tried in exercise 01.2",
        "normcourse/checks/batch_norm.py",
        "    _check_large_mean(student, inputs)\n",
        "",
        f"tests/course/test_checks_batch_norm.py::{WRONG}",
    ),
    Fault(
        "half the accuracy passes in exercise 01a.2",
        "normcourse/checks/batch_norm_at_work.py",
        "if worst < REACHED:",
        "if worst < REACHED / 2:",
        f"tests/course/test_checks_batch_norm_at_work.py::{WRONG}",
    ),
    Fault(
        "the slip of one standard error is the right interval",
        "normcourse/checks/intervals.py",
        "lambda d, t: error(d),",
        "lambda d, t: half(d, t),",
        "tests/course/test_checks_capstone.py::test_interval",
    ),
    Fault(
        "a guess is added to what came out",
        "normcourse/checks/guesses.py",
        'return [real(guess, "your guess") - real(found, "what came out")]',
        'return [real(guess, "your guess") + real(found, "what came out")]',
        "tests/course/test_guesses.py",
    ),
]

TRAINING = [
    Fault(
        "the last full batch is dropped: where all samples are one batch, the loop never ends",
        "normcourse/training/loop.py",
        "range(0, len(order) - batch_size + 1, batch_size)",
        "range(0, len(order) - batch_size, batch_size)",
        "tests/course/test_training.py::test_a_batch_that_the_data_cannot_fill_is_refused_before_anything_changes",
    ),
    Fault(
        "the warm-up is a step longer",
        "normcourse/training/loop.py",
        "(step + 1) / (warmup + 1)",
        "(step + 1) / (warmup + 2)",
        "tests/course/test_training.py::test_warm_up_raises_the_rate_step_by_step",
    ),
    Fault(
        "a run that diverged does not say so",
        "normcourse/training/loop.py",
        "record.diverged = True",
        "record.diverged = False",
        "tests/course/test_training.py::test_a_run_that_diverges_stops_and_says_so",
    ),
    Fault(
        "the test data are looked at in training",
        "normcourse/training/loop.py",
        "accuracy(model, data.validation_x, data.validation_y)",
        "accuracy(model, data.test_x, data.test_y)",
        "tests/course/test_training.py::test_what_is_looked_at_is_the_validation_data",
    ),
    Fault(
        "the first matrix is free of decay, not the head",
        "normcourse/training/decay.py",
        "chosen.pop()",
        "chosen.pop(0)",
        "tests/course/test_training_decay.py::test_the_gains_of_a_place_decay_with_the_weights",
    ),
    Fault(
        "nets side by side are never clipped but stretched",
        "normcourse/training/stacked.py",
        ".clamp(max=1.0)",
        "",
        "tests/course/test_training_stacked.py::test_each_net_learns_as_it_does_alone",
    ),
]

RECORDS = [
    Fault(
        "final runs are planned before the tuning is done",
        "normcourse/training/records.py",
        "if tuning and done.issuperset(tuning):",
        "if tuning:",
        "tests/course/test_training_records.py::test_final_runs_and_sweeps_follow_the_tuning_at_the_rate_it_chose",
    ),
    Fault(
        "of equal rates the highest is chosen",
        "normcourse/training/records.py",
        "for lr in sorted(grid.rates)",
        "for lr in sorted(grid.rates, reverse=True)",
        "tests/course/test_training_records.py::test_the_rate_is_the_best_of_the_tuning_runs_and_the_lower_of_equals",
    ),
    Fault(
        "a stored record lacks a run",
        "notebooks/records/capstone_mlp.json",
        a_run_left_out,
        None,
        "tests/course/test_training_records.py::test_the_stored_records_are_complete_and_of_these_grids[capstone_mlp]",
    ),
    Fault(
        "times are stored a thousand times too short",
        "normcourse/timing/records.py",
        "[_five(1e6 * t) for t in times]",
        "[_five(1e3 * t) for t in times]",
        "tests/course/test_timing_records.py::test_what_is_stored_comes_back",
    ),
    Fault(
        "a file is written where it lies, and a full disk leaves half of it",
        "normcourse/atomic.py",
        "draft = path.with_name(",
        "draft = path or path.with_name(",
        "tests/course/test_timing_records.py::test_a_failed_save_leaves_the_former_file",
    ),
    Fault(
        "runs of two machines are mixed",
        "tools/experiments.py",
        "other = [part for part in here if there[part] != here[part]]",
        "other = []",
        "tests/course/test_experiments.py::test_runs_of_two_machines_are_not_mixed",
    ),
    Fault(
        "runs stand in the order in which they ended",
        "tools/experiments.py",
        "runs = sorted(record.runs, key=lambda run: places.index(run.cell))",
        "runs = [run for run in record.runs if run.cell in places]",
        "tests/course/test_experiments.py::test_runs_that_come_in_another_order_give_the_same_file",
    ),
]

MEASURES = [
    Fault(
        "a paired interval is for one more seed",
        "normcourse/measures/comparisons.py",
        "half = student_quantile(len(differences), level) * error",
        "half = student_quantile(len(differences) + 1, level) * error",
        "tests/course/test_measures_comparisons.py",
    ),
    Fault(
        "Holm's probabilities may become smaller again",
        "normcourse/measures/comparisons.py",
        ".cummax(0).values.clamp(max=1)",
        ".clamp(max=1)",
        "tests/course/test_measures_comparisons.py",
    ),
    Fault(
        "a layer that works in place changes what was kept before it",
        "normcourse/measures/depth.py",
        "return output.clone()",
        "return output",
        "tests/course/test_measures_depth.py::test_layers_that_work_in_place_are_seen_as_they_were",
    ),
]

TOOLS = [
    Fault(
        "the hints of an exercise are a part of its text",
        "normcourse/lesson.py",
        'SOLUTION.sub("", outside_folds(text)),',
        'SOLUTION.sub("", text),',
        "tests/course/test_lesson.py::test_what_belongs_to_an_exercise",
    ),
    Fault(
        "only the last cell of an answer belongs to its prediction",
        "normcourse/lesson.py",
        "spans[number] = range(first, place + 1)",
        "spans[number] = range(place, place + 1)",
        "tests/course/test_lesson.py",
    ),
    Fault(
        "exercises take no minutes",
        "tools/minutes.py",
        "return self.core + self.exercises",
        "return self.core",
        "tests/course/test_minutes.py",
    ),
    Fault(
        "the reader's changed cell gives way to a course's cell that did not change",
        "tools/merge.py",
        "if signature(newest) == given.get(name):\n        return True",
        "if signature(newest) == given.get(name):\n        return False",
        "tests/course/test_merge.py",
    ),
    Fault(
        "outputs stay in the reader's copy",
        "tools/learner.py",
        "cell.changed(outputs=[], execution_count=None)",
        "cell.changed(execution_count=None)",
        "tests/test_release.py",
    ),
    Fault(
        "an older copy of the reader's is overwritten",
        "tools/learner.py",
        "if not free.exists():",
        "if free:",
        "tests/course/test_learner.py",
    ),
    Fault(
        "a forbidden name passes the grader",
        "tools/grade.py",
        "if part in forbidden or hidden:",
        "if hidden:",
        "tests/test_grade.py::test_one_answer",
    ),
    Fault(
        "a refused answer is graded as solved",
        "tools/grade.py",
        'SOLVED = {"[ok]": YES, "[x]": NO,',
        'SOLVED = {"[ok]": YES, "[x]": YES,',
        "tests/test_grade.py::test_one_answer",
    ),
    Fault(
        "a copy without solutions leads to them",
        "tools/withheld.py",
        "LINK.sub(LATER, ",
        "str(",
        "tests/test_release.py",
    ),
    Fault(
        "a picture that looks otherwise is accepted",
        "tests/notebooks/nbstrict.py",
        "return same and self.pictures_alike(test, ref)",
        "return same",
        "tests/notebooks/test_nbstrict.py::test_strict_nbval_sees_what_differs_and_nothing_else",
    ),
    Fault(
        "the library imports the course",
        "normlib/functional/weights.py",
        "from torch import Tensor\n",
        "from torch import Tensor\n\nimport normcourse\n",
        "tests/test_layering.py::test_what_a_file_imports_is_declared_and_the_library_never_needs_the_course",
    ),
]

EDITIONS = [
    Fault(
        "a page of derivations shows the hints",
        "editions/derivations.py",
        'if fold["summary"].startswith(HINT):',
        'if not fold["summary"]:',
        "tests/test_derivations.py",
    ),
    Fault(
        "a tag in code becomes a link",
        "editions/prepare.py",
        r"|`[^`\n]+`|",
        "|",
        "tests/test_web.py",
    ),
    Fault(
        "pictures of the web edition have empty alt texts",
        "editions/extension/cells.py",
        'image["alt"] = picture.alt',
        'image["alt"] = ""',
        "tests/test_web.py",
    ),
    Fault(
        "pictures of a deck have empty alt texts",
        "editions/extension/decks/figures.py",
        'alt="{html.escape(picture.alt)}"',
        'alt=""',
        "tests/test_web.py",
    ),
    Fault(
        "the page of a lesson that moved leads nowhere",
        "editions/moved.py",
        'notebooks.glob(f"{new}_*.ipynb")',
        'notebooks.glob(f"{new}.ipynb")',
        "tests/test_pages.py",
    ),
]

FORMULAS = [
    Fault(
        "RMSNorm adds eps outside of the root",
        "notebooks/reference/equations.md",
        r"r = \sqrt{\frac{1}{D} \sum_{j=1}^{D} x_{j}^{2} + \varepsilon}",
        r"r = \sqrt{\frac{1}{D} \sum_{j=1}^{D} x_{j}^{2}} + \varepsilon",
        "tests/equations/test_equation_values.py::test_the_formula_agrees_with_the_code[EQ-RMS]",
    ),
    Fault(
        "a lesson's formula has another sign than the page of equations",
        "notebooks/02_layer_norm.ipynb",
        a_sign_below_a_tag,
        None,
        "tests/equations/test_equations.py::test_a_lesson_states_equations_in_the_same_characters",
    ),
    Fault(
        "RMSNorm's docstring subtracts eps",
        "normlib/functional/norms.py",
        "y = w x / sqrt(mean(x^2) + eps)",
        "y = w x / sqrt(mean(x^2) - eps)",
        "tests/equations/test_docstring_formulas.py::test_the_output_of_a_row",
    ),
    Fault(
        "an example of a docstring gives another number",
        "normlib/functional/norms.py",
        "tensor([0.2182, 0.6547, 1.0911, 1.5275])",
        "tensor([0.2182, 0.6547, 1.0911, 1.5276])",
        "tests/library/test_examples.py::test_a_public_docstring_has_an_example_that_holds",
    ),
]

NOTEBOOKS = [
    Fault(
        "a sentence after a prediction has a number that no cell printed",
        "notebooks/03_rms_norm.ipynb",
        a_decimal_after_a_prediction,
        None,
        "tests/notebooks/test_notebooks.py::test_notebook_keeps_the_rules[03_rms_norm.ipynb]",
    ),
    Fault(
        "a stored output has another digit",
        "notebooks/solutions/02_layer_norm.ipynb",
        a_digit_of_an_output,
        None,
        "notebooks/solutions/02_layer_norm.ipynb",
    ),
    Fault(
        "a stored picture has no alt text",
        "notebooks/02_layer_norm.ipynb",
        an_alt_text_emptied,
        None,
        "tests/notebooks/test_notebooks.py::test_notebook_keeps_the_rules[02_layer_norm.ipynb]",
    ),
    Fault(
        "a made page lacks a row",
        "notebooks/reference/glossary.md",
        a_row_lost,
        None,
        "tests/test_made_pages.py",
    ),
]

FAULTS = [
    *FUNCTIONAL,
    *LAYERS,
    *GRADIENTS,
    *FUSED,
    *KERNELS,
    *SURGERY,
    *CHECKS,
    *TRAINING,
    *RECORDS,
    *MEASURES,
    *TOOLS,
    *EDITIONS,
    *FORMULAS,
    *NOTEBOOKS,
]
