"""Bytes that never change again."""

from __future__ import annotations

import errno
import mmap
import os
from ctypes import byref, c_size_t, string_at
from multiprocessing import reduction
from typing import Any, Callable

from ._library import LIBRARY, SIZE, Descriptor, Handle, SendError, checked, descriptor, made, memory, pieces


class Frozen:
    """A copy of `data`, any object with the buffer protocol, that can no longer be changed.

    The kernel ensures this: the bytes are in a memfd that is sealed against writing. Send it to pipes by
    reference as often as you like, or to other processes through multiprocessing (`connection.send(frozen)`,
    queues, arguments of a pool). They get the same memory, not a copy.

    >>> hello = Frozen(b"hello, world")
    >>> bytes(hello.view[7:])
    b'world'

    `view` is a read-only memoryview of the bytes. From Python 3.12 on, the object itself has the buffer protocol.
    Any number of threads may use it.
    """

    __slots__ = ("_handle", "_length", "_view")

    def __init__(self, data: Any) -> None:
        # Only `bytes` cannot change. Any other object is copied under the interpreter lock.
        new = "frozen_new" if type(data) is bytes else "frozen_new_locked"
        with memory(data) as (address, length):
            self._hold(made(new, address, length))

    def _hold(self, handle: Handle) -> None:
        self._handle = handle
        self._length: int = LIBRARY.pagewise_frozen_length(handle)
        self._view: memoryview | None = None

    @classmethod
    def from_memfd(cls, file: Descriptor, length: int) -> Frozen:
        """Uses the first `length` bytes of a sealed memfd, such as another process's `memfd()`.

        The descriptor is duplicated. Raises PermissionError for a file that is not sealed.
        """
        frozen = cls.__new__(cls)
        frozen._hold(made("frozen_open", descriptor(file), length))
        return frozen

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Frozen: {self._length} bytes>"

    def memfd(self) -> int:
        """Returns the sealed file. It belongs to this object: duplicate it to keep it.

        Raises OSError (ENOTSUP) if sealed files are not allowed.
        """
        return checked(LIBRARY.pagewise_frozen_memfd(self._handle))

    @property
    def view(self) -> memoryview:
        """The bytes, read-only. They exist as long as any view of them."""
        if self._view is None:
            self._view = memoryview(self._map())
        return self._view

    def _map(self) -> mmap.mmap | bytes:
        try:
            # A separate mapping that Python owns, so that no view can outlive its memory.
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
        """Sends `length` bytes from `start` on to any descriptor, and waits while it is full. The default is all.

        A pipe gets them by reference. Returns their number. Raises `SendError`.
        """
        if hasattr(to, "flush"):
            to.flush()
        number, handle = descriptor(to), self._handle
        return send(self, start, length, lambda at, most, taken: LIBRARY.pagewise_frozen_send(
            handle, number, at, most, byref(taken)
        ))


def send(
    frozen: Frozen, start: int, length: int | None, call: Callable[[int, int, c_size_t], int]
) -> int:
    """Sends a part of frozen bytes through `call`, piece by piece."""
    start = SIZE(start)
    length = max(len(frozen) - start, 0) if length is None else SIZE(length)
    if length > len(frozen) - start:
        error = SendError(errno.EINVAL, f"`send` failed after 0 bytes: there are {len(frozen)}")
        error.taken = 0
        raise error

    def piece(done: int, most: int) -> int:
        taken = c_size_t()
        answer = call(start + done, most, taken)
        return taken.value or answer

    return pieces(length, piece)


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


# Only the pickler of multiprocessing can pass descriptors.
reduction.register(Frozen, _reduce)
