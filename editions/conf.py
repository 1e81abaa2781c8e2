"""Sphinx' settings for the web edition and the decks: one project, one build."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "normlib"
author = "the authors of normlib"
copyright = "2026, the authors of normlib"

extensions = ["myst_nb", "sphinx_copybutton", "editions.extension"]
course_notebooks = str(ROOT / "notebooks")
course_decks = str(ROOT / "lectures")
course_citation = str(ROOT / "CITATION.cff")
exclude_patterns = ["_files"]

nb_execution_mode = "off"
nb_merge_streams = True
nb_output_stderr = "warn"
myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # course_map.md goes from one # to three
add_module_names = False  # a page has one module
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True  # eps: float = 1e-5, as it is written
napoleon_use_param = False  # "weight, bias: (C,)" is one entry
napoleon_custom_sections = [("Raises", "returns_style"), ("Source", "returns_style")]
python_maximum_signature_line_length = 60
smartquotes = False  # what a cell printed stays as it was printed

templates_path = ["templates"]
html_theme = "furo"
html_title = project
html_theme_options = {"navigation_with_keys": True}
html_static_path = [
    "static",
    str(ROOT / "build" / "libraries" / "site"),
]
html_css_files = ["katex/katex.min.css", "course.css", "print.css"]
html_js_files = ["course.js"]
html_math_renderer = "katex"
html_favicon = "static/icon.svg"
html_use_index = False
html_copy_source = False
html_show_copyright = False  # templates/page.html says it, with the licence
html_show_sourcelink = False
html_search_scorer = str(ROOT / "editions" / "scorer.js")
html_show_search_summary = False  # it would be fetched, which a page from file:// may not
html_last_updated_fmt = None  # two builds of the same notebooks are the same
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

html_context = {
    "licence": "CC BY 4.0",  # of text and figures: LICENSE-TEXT.md
    "licence_address": "https://creativecommons.org/licenses/by/4.0/",
}
