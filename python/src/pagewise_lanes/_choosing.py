"""The choice of a way to read a file."""

from __future__ import annotations

import os
from ctypes import byref
from typing import NamedTuple

from ._library import LIBRARY, ChoiceStruct, checked

ORDERS = {"sequential": 0, "random": 1}


class Choice(NamedTuple):
    """The fastest way to read a file."""

    way: str
    """Name of the way, as in `pagewise choose`: "read", "pread", "map", "map-populate" and so on."""
    seconds: float
    """Predicted time from opening to closing, in seconds."""


def choose(
    path: str | os.PathLike[str],
    order: str = "sequential",
    block: int = 64 * 1024,
    passes: int = 1,
    threads: int = 1,
) -> Choice:
    """Predicts the fastest way to read a file on this machine, as it is cached now.

    The program reads `block` bytes at once in `order` ("sequential" or "random"), makes `passes` passes through
    the file, and uses `threads` threads.

    The prices come from `pagewise choose --calibrate`. Without them this raises OSError (ENODATA), with advice in
    its text.
    """
    found = ChoiceStruct()
    name = os.fsencode(path)
    answer = LIBRARY.pagewise_choose(name, ORDERS[order], block, passes, threads, byref(found))
    checked(answer)
    return Choice(found.way.decode(), found.time_ns / 1e9)
