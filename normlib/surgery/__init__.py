"""Find a model's norms, put other layers in their place, carry what was trained, fit the rest."""

from normlib.surgery.replacement import Replacement, Report, replace

__all__ = ["Replacement", "Report", "replace"]
