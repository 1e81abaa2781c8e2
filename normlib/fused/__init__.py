"""functional's norms with the least memory and traffic; no GPU has run the kernels yet.

Arguments, results and errors are functional's; only the way is another one: closed-form gradients,
nothing saved for them but the inputs and a number a row, and no temporary of the input's size. On
CUDA the work is done by the Triton kernels of normlib.kernels, which have been compiled for GPUs
and run in Triton's interpreter only; elsewhere by cpu.py, in plain torch, in as many threads of its
own as torch has. Small inputs on the CPU, which functional does more quickly, are left to it. All
tensors are on one device.

torch.compile sees one operator a call. Second derivatives are right: they are those of
normlib.gradients, taken from the inputs. Under vmap, torch.func or forward mode the call is
functional's own.
"""

from normlib.fused.norms import layer_norm, rms_norm
from normlib.fused.pointwise import dyisru, dyt

__all__ = ["dyisru", "dyt", "layer_norm", "rms_norm"]
