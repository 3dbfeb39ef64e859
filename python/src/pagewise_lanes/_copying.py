"""Copies between descriptors."""

from __future__ import annotations

import errno
import os
from ctypes import byref
from typing import Any, NamedTuple

from ._library import LIBRARY, UINT64, CopiedStruct, Descriptor, Handle, descriptor, made, message

# Flags of pagewise_copy, and the sides of its errors.
LIVE = 1
SIDES = {1: "source", 2: "sink"}

# As a limit: copy until the end.
NO_LIMIT = 2**64 - 1


class Copied(NamedTuple):
    """The result of a copy."""

    bytes: int
    """Number of bytes moved."""
    way: str
    """System call that moved the last bytes."""


class CopyError(OSError):
    """A copy that ended early. The sink has exactly `moved` bytes; `side` is "source" or "sink"."""

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
            # Drops the read-ahead bytes, which a seek to a near position would keep.
            self.buffered.seek(0, os.SEEK_END)
            os.lseek(self.number, at, os.SEEK_SET)

    def settle(self) -> None:
        """Sets the position that Python has for the file."""
        if self.buffered is not None:
            self.buffered.seek(os.lseek(self.number, 0, os.SEEK_CUR))


def copy(source: Descriptor, sink: Descriptor, limit: int | None = None, *, live: bool = False) -> Copied:
    """Copies from `source` to `sink` until the end of the source, or `limit` bytes. The copy is exact and uses the
    fastest safe way.

    Both are descriptors or objects with `fileno()`, of any kind: files, pipes, sockets, devices. Neither is
    closed. Files that Python buffers are flushed first, and their positions are correct afterwards. Bytes that
    Python has read ahead from a pipe are not copied: open pipes that you read yourself with `buffering=0`.

    `live` passes pages of a file on by reference. Until the reader takes them, a later write to the file
    changes the bytes that it gets.

    Raises `CopyError`, an `OSError` with the fields `moved` and `side`. Signal handlers run while it waits. If one
    raises (Ctrl-C), up to 1 MiB that was read may be lost before it reaches the sink.
    """
    most = NO_LIMIT if limit is None else UINT64(limit)
    places = [_Place(source), _Place(sink)]
    try:
        numbers = (place.number for place in places)
        return _run(made("copier_new", *numbers, most, LIVE if live else 0))
    finally:
        for place in places:
            place.settle()


def _run(copier: Handle) -> Copied:
    """Copies until the end. Signal handlers run between calls."""
    step = CopiedStruct()
    while (answer := LIBRARY.pagewise_copier_run(copier, byref(step))) == -errno.EINTR:
        pass
    if answer < 0:
        error = CopyError(-answer, message())
        error.moved, error.side = step.bytes, SIDES.get(step.side, "")
        raise error
    return Copied(step.bytes, step.way.decode() if step.bytes else "")
