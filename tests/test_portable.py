"""test-portable: the other maker's path is taken, or nobody trusts it; what is left out is said."""

import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.notebooks.nbstrict import StrictKernel
from tools import jupyter_kernels, other_maker, portable

LINUX_X86 = SimpleNamespace(machine=lambda: "x86_64")


@pytest.fixture
def on_linux(monkeypatch):
    monkeypatch.setattr(other_maker.sys, "platform", "linux")
    monkeypatch.setattr(other_maker, "platform", LINUX_X86)


def answers(*found):
    """In the place of probe: what it finds here, and then with the library."""
    found = iter(found)
    return lambda environment: next(found)


HERE, THERE = ("Intel(R) Architecture processors", "1.25 3.5"), ("Intel(R) AVX-512", "1.26 3.5")


def test_another_path_and_other_digits_are_said(monkeypatch):
    monkeypatch.setattr(other_maker, "probe", answers(HERE, THERE))
    sentence = other_maker.difference({}, {"LD_PRELOAD": "x.so"})
    assert all(word in sentence for word in [*HERE, *THERE])


@pytest.mark.parametrize(
    "there", [HERE, (THERE[0], HERE[1]), (HERE[0], THERE[1])], ids=["nothing", "digits", "path"]
)
def test_a_library_without_effect_is_an_error(monkeypatch, there):
    monkeypatch.setattr(other_maker, "probe", answers(HERE, there))
    with pytest.raises(other_maker.NoEffectError, match="changes nothing"):
        other_maker.difference({}, {"LD_PRELOAD": "x.so"})


def test_without_mkl_it_is_left_out(monkeypatch):
    monkeypatch.setattr(other_maker, "probe", answers(("", "1.25"), ("", "1.25")))
    with pytest.raises(other_maker.LeftOutError, match="without MKL"):
        other_maker.difference({}, {"LD_PRELOAD": "x.so"})


def test_without_a_compiler_it_is_left_out(monkeypatch, on_linux, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(other_maker.LeftOutError, match="no cc, gcc or clang"):
        other_maker.compiled(tmp_path)


@pytest.mark.parametrize(("system", "machine"), [("darwin", "x86_64"), ("linux", "aarch64")])
def test_elsewhere_it_is_left_out(monkeypatch, tmp_path, system, machine):
    monkeypatch.setattr(other_maker.sys, "platform", system)
    monkeypatch.setattr(other_maker, "platform", SimpleNamespace(machine=lambda: machine))
    with pytest.raises(other_maker.LeftOutError, match="Linux on x86-64"):
        other_maker.compiled(tmp_path)


def test_what_else_is_preloaded_stays_and_the_library_of_another_run_goes(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/old/other_maker.so:/lib/a.so /lib/b.so")
    assert other_maker.with_preload()["LD_PRELOAD"] == "/lib/a.so:/lib/b.so"
    assert other_maker.with_preload("/new.so")["LD_PRELOAD"] == "/new.so:/lib/a.so:/lib/b.so"


def raises(error):
    @contextmanager
    def preloaded():
        raise error("in a word")
        yield

    return preloaded


@pytest.mark.parametrize(
    ("error", "verdict", "status"),
    [(other_maker.LeftOutError, "left out", 0), (other_maker.NoEffectError, "NO EFFECT", 1)],
)
def test_what_is_left_out_is_said_and_what_has_no_effect_is_red(
    monkeypatch, capsys, error, verdict, status
):
    monkeypatch.setattr(portable.other_maker, "preloaded", raises(error))
    monkeypatch.setattr(sys, "argv", ["portable.py", "--only", "other maker"])
    assert portable.main() == status
    said = capsys.readouterr().out
    assert "in a word" in said and f"{verdict:9} other maker" in said


@pytest.fixture
def commands(monkeypatch):
    """The commands that portable.py runs, none of which is run."""
    ran = []

    def run(command, **options):
        ran.append((command, options["env"]))
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(portable.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["portable.py"])
    return ran


def test_two_settings_run_all_tests_and_every_setting_the_notebooks(monkeypatch, commands):
    @contextmanager
    def preloaded():
        yield {"LD_PRELOAD": "x.so"}, "as tried"

    monkeypatch.setattr(portable.other_maker, "preloaded", preloaded)
    assert portable.main() == 0
    assert len(commands) == len(portable.SETTINGS)
    whole = [environment for command, environment in commands if "tests" in command]
    assert [environment.get("LD_PRELOAD") == "x.so" for environment in whole] == [False, True]
    assert all(command[-1] == "notebooks" and "-m" not in command[3:] for command, _ in commands)


def test_who_names_a_notebook_gets_it_alone(monkeypatch, commands):
    monkeypatch.setattr(sys, "argv", ["portable.py", "--only", "as it is", "a.ipynb"])
    assert portable.main() == 0
    ((command, _),) = commands
    assert "a.ipynb" in command and "tests" not in command


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux preloads")
def test_a_forked_kernel_takes_the_other_path(monkeypatch, tmp_path):
    try:
        with other_maker.preloaded() as (environment, _):
            _, sums = other_maker.probe(environment)
            monkeypatch.setenv("LD_PRELOAD", environment["LD_PRELOAD"])
            kernel = StrictKernel(tmp_path)
    except other_maker.LeftOutError as reason:
        pytest.skip(str(reason))
    printed = []
    kernel.kc.execute_interactive(
        other_maker.PROBE, output_hook=printed.append, timeout=jupyter_kernels.CELL_TIMEOUT_S
    )
    kernel.stop()
    kernel.sockets.cleanup()
    streams = [message["content"]["text"] for message in printed if message["msg_type"] == "stream"]
    assert "".join(streams) == f"sums: {sums}\n"
