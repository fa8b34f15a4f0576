"""Profiles of numalens: tables, SQL, flows of objects and threads, heat maps.

Open one with `numalens.open(path)`, several as one with `numalens.open_all(pattern)`. A program that is recorded names
its phases with `numalens.phase` and `numalens.mark`, which need nothing but Python.
"""

import importlib

from .marks import mark, phase, start, stop

# What is loaded when it is first asked for: a program that names its phases does not wait for it.
_LATER = {
    "Event": "flows",
    "Object": "flows",
    "Line": "profile",
    "Profile": "profile",
    "ProfileError": "profile",
    "open": "profile",
    "open_all": "profile",
    "flows": None,
    "plot": None,
    "profile": None,
    "questions": None,
    "spark": None,
    "tables": None,
}

__all__ = ["Event", "Line", "Object", "Profile", "ProfileError", "mark", "open", "open_all", "phase", "plot"]
__all__ += ["questions", "spark", "start", "stop"]


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_LATER[name] or name}", __name__)
    found = getattr(module, name) if _LATER[name] else module
    globals()[name] = found
    return found


def __dir__():
    return sorted(set(globals()) | set(_LATER))
