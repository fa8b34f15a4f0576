"""What a program says of itself while it is recorded. Without numalens each of these does nothing.

    import numalens

    with numalens.phase("training"):
        ...
    numalens.mark("epoch 3")

`start` and `stop` count from here on, or no more, with `numalens record --start-paused`. These are the functions of
`numalens header`, for Python: they need nothing but the standard library.
"""

import contextlib
import ctypes

__all__ = ["mark", "phase", "start", "stop"]

_START, _STOP, _BEGIN, _END, _MARK = 1, 2, 3, 4, 5


def _library():
    """The function of the library that `numalens record` loads into a program; None without it."""
    try:
        ask = ctypes.CDLL(None).numalens_ask
    except (AttributeError, OSError, TypeError):
        return None
    ask.argtypes = (ctypes.c_ulong, ctypes.c_char_p)
    ask.restype = None
    return ask


_ask = _library()


def _tell(what, name=None):
    if _ask is not None:
        _ask(what, None if name is None else str(name).encode("utf-8", "replace"))


def start():
    """Counts from here on."""
    _tell(_START)


def stop():
    """Counts no more."""
    _tell(_STOP)


def mark(name):
    """A moment with a name."""
    _tell(_MARK, name)


@contextlib.contextmanager
def phase(name):
    """A phase with a name, of this thread."""
    _tell(_BEGIN, name)
    try:
        yield
    finally:
        _tell(_END, name)
