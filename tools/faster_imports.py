"""Import this before nbformat (`pytest -p tools.faster_imports`): a process starts 1.5 s sooner.

nbformat imports jsonschema, and that, for formats which no notebook's schema has, imports
rfc3987_syntax, whose grammar takes most of those seconds. jsonschema goes without a package that
cannot be imported, and None says so.
"""

import sys
from types import ModuleType
from typing import cast

sys.modules.setdefault("rfc3987_syntax", cast(ModuleType, None))
