"""What a page's template is told, and the files that are copied as they are."""

from html import escape
from pathlib import Path

from docutils import nodes

from editions import colab, moved, order
from editions.prepare import FILES

PICTURE = "_images/hero.png"


def tell(app, pagename, templatename, context, doctree):
    """The notebook that a page offers, if it is made from one; a lesson's opens in Colab, too."""
    made_from = Path(app.config.course_notebooks, f"{pagename}.ipynb")
    context["notebook"] = f"_static/notebooks/{pagename}.ipynb" if made_from.is_file() else ""
    repository = colab.repository(Path(app.config.course_citation))
    is_lesson = order.LESSON.fullmatch(pagename) and made_from.is_file()
    context["colab"] = colab.lesson(repository, pagename) if repository and is_lesson else ""
    base = app.config.html_baseurl  # a shared link wants whole addresses, where one is known
    context["picture"] = f"{base}{PICTURE}" if base else context["pathto"](PICTURE, 1)
    context["description"] = description(doctree) if doctree else ""


def description(doctree) -> str:
    """The first paragraph, for a list of results or a link that somebody shares."""
    first = next(doctree.findall(nodes.paragraph), None)
    return " ".join(first.astext().split()) if first else ""


def follow_the_road(app, pagename, templatename, context, doctree):
    """Before and after a lesson is the main road, where the contents would say a side lesson."""
    lessons = sorted(name for name in app.env.found_docs if order.LESSON.fullmatch(name))
    lessons = [name for name in lessons if name not in moved.MOVED]
    numbers = [name[:2] for name in order.main_road(lessons)]
    if pagename in lessons and pagename[:2] in numbers:
        before, after = order.neighbours(pagename, lessons)
        context["prev"] = link(app, pagename, before)
        context["next"] = link(app, pagename, after)


def link(app, page: str, goal: str) -> dict[str, str]:
    title = app.env.titles[goal].astext()
    return {"link": app.builder.get_relative_uri(page, goal), "title": escape(title)}


def copy_files(app, config):
    config.html_static_path.append(str(Path(app.srcdir, FILES)))


def setup(app):
    app.add_config_value("course_citation", "", "html")
    app.connect("config-inited", copy_files)
    app.connect("html-page-context", tell)
    app.connect("html-page-context", follow_the_road)
