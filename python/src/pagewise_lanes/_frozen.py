"""Bytes that never change again."""

from __future__ import annotations

import mmap
import os
from ctypes import byref, c_size_t, c_void_p, string_at
from multiprocessing import reduction
from typing import Any

from ._library import LIBRARY, Descriptor, checked, descriptor, memory, message


class SendError(OSError):
    """Bytes that were not all sent. The first `taken` of them were."""

    taken: int


class Frozen:
    """A copy of `data`, any object with the buffer protocol, that nothing can change any more.

    The kernel keeps it: the bytes lie in a memfd that is sealed against writing. Send it to pipes by
    reference as often as you like, or to other processes by multiprocessing (`connection.send(frozen)`,
    queues, arguments of a pool): they get the same memory, not a copy.

    >>> hello = Frozen(b"hello, world")
    >>> bytes(hello.view[7:])
    b'world'

    `view` is a read-only memoryview of the bytes. From Python 3.12 on the object has the buffer protocol
    itself. Any number of threads may use it.
    """

    __slots__ = ("_handle", "_length", "_view")

    def __init__(self, data: Any) -> None:
        handle = c_void_p()
        with memory(data) as (address, length):
            checked(LIBRARY.pagewise_frozen_new(address, length, byref(handle)))
        self._hold(handle)

    def _hold(self, handle: c_void_p) -> None:
        self._handle: int | None = handle.value
        self._length: int = LIBRARY.pagewise_frozen_length(handle)
        self._view: memoryview | None = None

    @classmethod
    def from_memfd(cls, file: Descriptor, length: int) -> Frozen:
        """Takes the first `length` bytes of a sealed memfd, such as another process's `memfd()`.

        The descriptor is duplicated. Raises PermissionError for a file that is not sealed.
        """
        handle, made = c_void_p(), cls.__new__(cls)
        checked(LIBRARY.pagewise_frozen_open(descriptor(file), length, byref(handle)))
        made._hold(handle)
        return made

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        LIBRARY.pagewise_frozen_free(handle)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Frozen: {self._length} bytes>"

    def memfd(self) -> int:
        """The sealed file, which belongs to this object: duplicate it to keep it.

        Raises OSError (ENOTSUP) where sealed files are not allowed.
        """
        return checked(LIBRARY.pagewise_frozen_memfd(self._handle))

    @property
    def view(self) -> memoryview:
        """The bytes, read only. They stay for as long as a view of them does."""
        if self._view is None:
            self._view = memoryview(self._map())
        return self._view

    def _map(self) -> mmap.mmap | bytes:
        try:
            # A mapping of Python's own, so that no view can outlive its memory.
            file = self.memfd() if self._length else None
        except OSError:
            file = None
        if file is None:
            return string_at(LIBRARY.pagewise_frozen_bytes(self._handle), self._length)
        return mmap.mmap(file, self._length, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)

    def __buffer__(self, flags: int) -> memoryview:
        return self.view

    def __bytes__(self) -> bytes:
        return bytes(self.view)

    def __reduce__(self) -> Any:
        raise TypeError("only multiprocessing can pass a Frozen on; pickle bytes(frozen) instead")

    def send(self, to: Descriptor, start: int = 0, length: int | None = None) -> int:
        """Sends `length` bytes from `start` on, by default all, to any descriptor; waits while it is full.

        Into a pipe they go by reference. Returns their number. Raises `SendError`.
        """
        length = max(self._length - start, 0) if length is None else length
        taken = c_size_t()
        if hasattr(to, "flush"):
            to.flush()
        answer = LIBRARY.pagewise_frozen_send(self._handle, descriptor(to), start, length, byref(taken))
        return sent(answer, taken)


def sent(answer: int, taken: c_size_t) -> int:
    """The number of bytes sent."""
    if answer < 0:
        error = SendError(-answer, message())
        error.taken = taken.value
        raise error
    return taken.value


def _reduce(frozen: Frozen) -> tuple[Any, tuple[Any, ...]]:
    try:
        return _rebuild, (reduction.DupFd(frozen.memfd()), len(frozen))
    except OSError:
        return Frozen, (bytes(frozen),)


def _rebuild(given: Any, length: int) -> Frozen:
    file = given.detach()
    try:
        return Frozen.from_memfd(file, length)
    finally:
        os.close(file)


# Only the pickler of multiprocessing can pass descriptors on.
reduction.register(Frozen, _reduce)
