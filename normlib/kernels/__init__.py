"""Triton kernels, forward and backward.

rows.py has LayerNorm and RMSNorm, pointwise.py DyT and DyISRU.

Importing this package costs nothing; importing its modules needs triton. Without a GPU they run in
Triton's interpreter, if TRITON_INTERPRET=1 was set before triton was first imported.
normcourse/timing/traffic.py counts, in the interpreter, the bytes that a kernel moves.
"""
