"""Find a model's norms, put other layers in their place, carry what was trained, fit the rest.

`replace` exchanges layers one by one; `fold` makes RMSNorms of LayerNorms with the same answers.
"""

from normlib.surgery.folding import fold
from normlib.surgery.replacement import Replacement, Report, replace

__all__ = ["Replacement", "Report", "fold", "replace"]
