"""Which template a page has, and what the template is told."""

from pathlib import Path


def tell(app, pagename, templatename, context, doctree):
    """The notebook that a page offers for download, if it is made from one."""
    made_from = Path(app.config.course_notebooks, f"{pagename}.ipynb")
    context["notebook"] = f"_static/notebooks/{pagename}.ipynb" if made_from.is_file() else ""


def setup(app):
    app.connect("html-page-context", tell)
