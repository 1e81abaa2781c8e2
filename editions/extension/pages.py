"""What a page's template is told, and the files that are copied as they are."""

from pathlib import Path

from editions.prepare import FILES


def tell(app, pagename, templatename, context, doctree):
    """The notebook that a page offers for download, if it is made from one."""
    made_from = Path(app.config.course_notebooks, f"{pagename}.ipynb")
    context["notebook"] = f"_static/notebooks/{pagename}.ipynb" if made_from.is_file() else ""


def copy_files(app, config):
    config.html_static_path.append(str(Path(app.srcdir, FILES)))


def setup(app):
    app.connect("config-inited", copy_files)
    app.connect("html-page-context", tell)
