"""normlib: normalization layers that can be read, equal to torch's; the course's library."""

from normlib import functional, fused, gradients, layers

__all__ = ["functional", "fused", "gradients", "layers"]
