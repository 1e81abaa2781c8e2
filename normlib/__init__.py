"""normlib: normalization layers that can be read, and are equal to torch's; the library under the course."""

from normlib import functional, layers

__all__ = ["functional", "layers"]
