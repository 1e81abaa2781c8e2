"""The house style of the course's figures; the only folder that imports matplotlib.

A figure is shown as a PNG with alt text, beside a text fingerprint of what a reader sees in it, and
its alt text stands below it as a caption. nbval compares fingerprint and caption on every platform,
and the PNG carries the fingerprint in its metadata, so a stale picture is noticed.

style.py draws, output.py shows, fingerprint.py describes; colors are in normcourse/palette.py.
"""

from normcourse.figures.fingerprint import fingerprint
from normcourse.figures.output import show
from normcourse.figures.style import COLOURS, STYLE, ink, line, subplots

__all__ = ["COLOURS", "STYLE", "fingerprint", "ink", "line", "show", "subplots"]
