"""Every kernel compiles for a GPU that is not there.

The interpreter forgives what the compiler refuses. Found by this: a clamp of float64, which only
fails when compiled. ptxas comes with triton's wheel.
"""

import os
import platform
import subprocess
import sys

import pytest

if sys.platform != "linux":
    pytest.importorskip("triton", reason="triton has no wheel for this system")

COMPILE = """
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from normlib.kernels import pointwise, rows, wide
from normlib.kernels.launch import tile_shape

SUMS = {"mean_ptr", "rstd_ptr", "sums_ptr", "dw_ptr", "db_ptr", "dparameter_ptr"}

ONES = {"D", "x_stride", "dy_stride", "blocks"}

def signature(kernel, dtype, acc, constants):
    for name, parameter in ((p.name, p) for p in kernel.params):
        if name in constants:
            yield name, "constexpr"
        elif name.endswith("_ptr"):
            yield name, "*" + (acc if name in SUMS else dtype)
        else:
            integer = "i64" if name in ("rows", "x_stride") else "i32"
            yield name, parameter.annotation_type or integer

def compiled(kernel, dtype, absent=(), **meta):
    if "D" not in meta and meta.get("COLS", 9) <= 4:  # a size or stride of 1 is compiled in
        ones = dict.fromkeys(ONES & set(kernel.arg_names), 1)
        compiled(kernel, dtype, absent, **{**meta, **ones})
    acc = "fp64" if dtype == "fp64" else "fp32"
    warps = meta.pop("num_warps")
    constants = {"ACC": getattr(tl, acc.replace("fp", "float")), **meta, **dict.fromkeys(absent)}
    wanted = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, dict(signature(kernel, dtype, acc, constants)), wanted)
    ready = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    assert ready.metadata.shared < 227 * 1024, "more shared memory than a multiprocessor has"
    assert "atom" not in ready.asm["ptx"].replace("atomic", ""), "an atomic operation"

# LayerNorm's kernels with everything in bfloat16, RMSNorm's with nothing but x in float64
ALL_BUT_X = ("mean_ptr", "bias_ptr", "weight_ptr", "dw_ptr", "db_ptr")
dtype = sys.argv[1]
def without(kernel):
    return [name for name in ALL_BUT_X if dtype == "fp64" and name in kernel.arg_names]
for kernel in (rows._forward, rows._backward):
    compiled(kernel, dtype, without(kernel), **tile_shape(3))
if dtype == "bf16":
    compiled(rows._forward, dtype, **tile_shape(16384))
    compiled(rows._backward, dtype, **tile_shape(8192))
for kernel in (wide._forward, wide._row_sums):
    compiled(kernel, dtype, without(kernel), PIECE=wide.PIECE, num_warps=8)
compiled(wide._columns, dtype, without(wide._columns), **tile_shape(70_000, wide.COLUMNS))
for kind in ("tanh", "isru"):
    for kernel in (pointwise._forward, pointwise._backward):
        shape = tile_shape(1000, pointwise.COLUMNS)
        compiled(kernel, dtype, without(kernel), KIND=kind, **shape)
print("all compiled")
"""


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the wheel's ptxas is tried on x86_64 only"
)
@pytest.mark.parametrize("dtype", ["fp64", pytest.param("bf16", marks=pytest.mark.slow)])
def test_every_kernel_compiles_for_sm_90(dtype, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, dtype], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "all compiled\n", done.stderr[-3000:]
