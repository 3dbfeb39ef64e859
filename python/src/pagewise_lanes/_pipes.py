"""Ends of a pipe that wait adaptively."""

from __future__ import annotations

import errno
import io
import threading
from ctypes import byref, c_size_t, c_void_p
from typing import Any

from ._frozen import Frozen, sent
from ._library import LIBRARY, Descriptor, checked, descriptor, memory

WAITS = {"adaptive": 0, "block": 1, "busy": 2}
CAPACITY = 1024 * 1024


class _End(io.RawIOBase):
    """What both ends have: a handle, which one thread uses at a time."""

    _handle: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Lock()

    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("I/O operation on closed file")
        return self._handle

    def _call(self, function: Any, *arguments: Any) -> int:
        """Calls until no signal interrupts; its handler runs between."""
        while True:
            with self._turn:
                answer: int = function(self._open(), *arguments)
                if answer != -errno.EINTR:
                    return checked(answer)

    def _close(self, free: Any) -> None:
        if not self.closed:
            super().close()
            with self._turn:
                handle, self._handle = self._handle, None
                free(handle)


class Writer(_End):
    """The end of a pipe that writes, or any other descriptor, which is duplicated: close yours.

    A pipe grows to `capacity` bytes, or as near to that as the user's limits allow. `wait` says how to
    wait for the reader: "adaptive" spins while it is about to act, for 200 us at most, and sleeps
    otherwise; "block" always sleeps; "busy" never does. A raw file: `write` may write less than it is given.
    """

    def __init__(self, to: Descriptor, *, wait: str = "adaptive", capacity: int = CAPACITY) -> None:
        super().__init__()
        handle = c_void_p()
        checked(LIBRARY.pagewise_writer_new(descriptor(to), WAITS[wait], capacity, byref(handle)))
        self._handle = handle.value

    def writable(self) -> bool:
        """It is."""
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
        """Sends frozen bytes, by default all, into a pipe by reference. Raises `SendError`."""
        length = max(len(frozen) - start, 0) if length is None else length
        taken = c_size_t()
        with self._turn:
            answer = LIBRARY.pagewise_writer_send(
                self._open(), frozen._handle, start, length, byref(taken)
            )
            return sent(answer, taken)

    def capacity(self) -> int:
        """Bytes that the pipe holds at most; 0 for what is no pipe."""
        with self._turn:
            return int(LIBRARY.pagewise_writer_capacity(self._open()))

    def close(self) -> None:
        """Closes it."""
        self._close(LIBRARY.pagewise_writer_free)


class Reader(_End):
    """The end of a pipe that reads, or any other descriptor, which is duplicated: close yours.

    The capacity of a pipe stays, because its writer may rely on it. `wait` is as for `Writer`. A raw file:
    `read` gives what is there.
    """

    def __init__(self, source: Descriptor, *, wait: str = "adaptive") -> None:
        super().__init__()
        handle = c_void_p()
        checked(LIBRARY.pagewise_reader_new(descriptor(source), WAITS[wait], byref(handle)))
        self._handle = handle.value

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes and returns their number, 0 at the end."""
        with memory(buffer, writable=True) as (address, length):
            return self._call(LIBRARY.pagewise_reader_read, address, length)

    def skip(self, count: int) -> int:
        """Throws the next bytes away and returns their number, which is smaller only at the end."""
        return self._call(LIBRARY.pagewise_reader_skip, count)

    def close(self) -> None:
        """Closes it."""
        self._close(LIBRARY.pagewise_reader_free)
