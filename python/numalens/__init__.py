"""Profiles of numalens: tables, SQL, flows of objects and threads, heat maps.

Open one with `numalens.open(path)`, several as one with `numalens.open_all(pattern)`.
"""

from . import plot, questions, spark
from .flows import Event, Object
from .profile import Line, Profile, ProfileError, open, open_all

__all__ = ["Event", "Line", "Object", "Profile", "ProfileError", "open", "open_all", "plot", "questions", "spark"]
