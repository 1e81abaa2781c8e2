"""Checks of the lessons' exercises, one file a lesson.

A check prints one verdict line and never raises.
"""

import normcourse.computing  # noqa: F401 (one torch thread)
