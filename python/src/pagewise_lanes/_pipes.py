"""Ends of a pipe that wait adaptively."""

from __future__ import annotations

import errno
import io
from ctypes import byref
from typing import Any

from ._frozen import Frozen, send
from ._library import LIBRARY, UINT64, Descriptor, Handle, checked, descriptor, made, memory, pieces

WAITS = {"adaptive": 0, "block": 1, "busy": 2}
CAPACITY = 1024 * 1024


class _End(io.RawIOBase):
    """The common part of both ends: a handle, on which the library lets threads take turns."""

    _handle: Handle | None = None

    def _open(self) -> Handle:
        if (handle := self._handle) is None:
            raise ValueError("I/O operation on closed file")
        return handle

    def _call(self, function: Any, *arguments: Any) -> int:
        """Repeats the call until no signal interrupts it. Handlers run between calls and may close this end."""
        while (answer := function(self._open(), *arguments)) == -errno.EINTR:
            pass
        return checked(answer)

    def close(self) -> None:
        """Closes the end. A call that waits in another thread ends with OSError (ECANCELED)."""
        handle, self._handle = self._handle, None
        super().close()
        if handle is not None:
            # It is freed with the last call that uses it.
            getattr(LIBRARY, f"pagewise_{handle.kind}_stop")(handle)


class Writer(_End):
    """The writing end of a pipe, or any other descriptor. The descriptor is duplicated: close yours.

    A pipe grows to `capacity` bytes, or as near to that as the user's limits allow. `wait` is the way to wait for
    the reader: "adaptive" spins for at most 200 us while the reader is about to act, and sleeps otherwise; "block"
    always sleeps; "busy" never sleeps. It is a raw file: `write` may write fewer bytes than it gets.
    """

    def __init__(self, to: Descriptor, *, wait: str = "adaptive", capacity: int = CAPACITY) -> None:
        super().__init__()
        self._handle = made("writer_new", descriptor(to), WAITS[wait], capacity)

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, data: Any) -> int:
        """Writes some bytes and returns their number."""
        with memory(data) as (address, length):
            return self._call(LIBRARY.pagewise_writer_write, address, length)

    def write_all(self, data: Any) -> None:
        """Writes all bytes."""
        with memory(data) as (address, length):
            done = 0
            while done < length:
                done += self._call(LIBRARY.pagewise_writer_write, (address or 0) + done, length - done)

    def send(self, frozen: Frozen, start: int = 0, length: int | None = None) -> int:
        """Sends frozen bytes into a pipe by reference, all by default. Returns their number. Raises `SendError`."""
        if not isinstance(frozen, Frozen):
            raise TypeError(f"a Frozen is wanted, not {type(frozen).__name__}")
        return send(frozen, start, length, lambda at, most, taken: LIBRARY.pagewise_writer_send(
            self._open(), frozen._handle, at, most, byref(taken)
        ))

    def capacity(self) -> int:
        """Returns the capacity of the pipe in bytes; 0 if the descriptor is not a pipe."""
        return int(LIBRARY.pagewise_writer_capacity(self._open()))


class Reader(_End):
    """The reading end of a pipe, or any other descriptor. The descriptor is duplicated: close yours.

    The capacity of a pipe does not change, because its writer may rely on it. `wait` is as for `Writer`. It is a
    raw file: `read` returns the bytes that are available.
    """

    def __init__(self, source: Descriptor, *, wait: str = "adaptive") -> None:
        super().__init__()
        self._handle = made("reader_new", descriptor(source), WAITS[wait])

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes and returns their number, 0 at the end."""
        with memory(buffer, writable=True) as (address, length):
            return self._call(LIBRARY.pagewise_reader_read, address, length)

    def skip(self, count: int) -> int:
        """Discards the next `count` bytes and returns their number, which is smaller only at the end."""
        return pieces(UINT64(count), lambda _, most: LIBRARY.pagewise_reader_skip(self._open(), most))
