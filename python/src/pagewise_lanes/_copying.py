"""Copies between descriptors."""

from __future__ import annotations

import os
from ctypes import byref
from typing import Any, NamedTuple

from ._library import LIBRARY, CopiedStruct, Descriptor, descriptor, message

# Flags of pagewise_copy, and the sides of its errors.
LIVE = 1
SIDES = {1: "source", 2: "sink"}

# Bytes of one call: between two, Ctrl-C is noticed.
PIECE = 256 * 1024 * 1024


class Copied(NamedTuple):
    """What a copy did."""

    bytes: int
    """Bytes moved."""
    way: str
    """The system call that moved the last of them."""


class CopyError(OSError):
    """A copy that ended early. `moved` bytes are with the sink, exactly; `side` is "source" or "sink"."""

    moved: int
    side: str


class _Place:
    """A descriptor, and the position of a file that Python buffers."""

    def __init__(self, file: Descriptor) -> None:
        self.number = descriptor(file)
        self.buffered: Any = None
        if hasattr(file, "flush"):
            file.flush()
        if hasattr(file, "raw") and file.seekable():  # type: ignore[union-attr]
            self.buffered = file
            at = self.buffered.tell()
            # Drops what was read ahead, which a seek to a near place would keep.
            self.buffered.seek(0, os.SEEK_END)
            os.lseek(self.number, at, os.SEEK_SET)

    def settle(self) -> None:
        """Lets Python know where the file is now."""
        if self.buffered is not None:
            self.buffered.seek(os.lseek(self.number, 0, os.SEEK_CUR))


def copy(source: Descriptor, sink: Descriptor, limit: int | None = None, *, live: bool = False) -> Copied:
    """Copies from `source` to `sink` until its end, or `limit` bytes, exactly and by the fastest safe way.

    Both are descriptors or objects with `fileno()`, of any kind: files, pipes, sockets, devices. Neither is
    closed. Files that Python buffers are flushed before, and their positions are right afterwards. Bytes that
    Python has read ahead of a pipe are not seen: open pipes that you read yourself with `buffering=0`.

    `live` passes pages of a file on by reference. Until the reader takes them, a later write to the file
    changes what it gets.

    Raises `CopyError`, an `OSError` with the fields `moved` and `side`.
    """
    moved, way, step = 0, "", CopiedStruct()
    places = [_Place(source), _Place(sink)]
    try:
        while limit is None or moved < limit:
            piece = PIECE if limit is None else min(PIECE, limit - moved)
            numbers = (place.number for place in places)
            answer = LIBRARY.pagewise_copy(*numbers, piece, LIVE if live else 0, byref(step))
            moved += step.bytes
            if answer < 0:
                error = CopyError(-answer, message())
                error.moved, error.side = moved, SIDES.get(step.side, "")
                raise error
            way = step.way.decode() if step.bytes else way
            if step.bytes < piece:
                break
    finally:
        for place in places:
            place.settle()
    return Copied(moved, way)
