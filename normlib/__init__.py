"""normlib: normalization layers that can be read, and are equal to torch's;
the library under the course.
"""

from normlib import functional, fused, gradients, layers

__all__ = ["functional", "fused", "gradients", "layers"]
