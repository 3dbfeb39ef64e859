"""The C library: where it is, what its functions take, and memory as it takes it.

The declarations are those of `pagewise.h`, as far as the package uses them.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Iterator, Protocol, Union

ABI_VERSION = 1
NAME = "libpagewise_capi.so"
VARIABLE = "PAGEWISE_LANES_LIBRARY"


class HasDescriptor(Protocol):
    """A file, a socket, an end of a pipe."""

    def fileno(self) -> int:
        """Its descriptor."""
        ...


Descriptor = Union[int, HasDescriptor]


class CopiedStruct(ctypes.Structure):
    """`pagewise_copied`."""

    _fields_ = [("bytes", c_uint64), ("side", ctypes.c_int32), ("way", c_char * 28)]


class ChoiceStruct(ctypes.Structure):
    """`pagewise_choice`."""

    _fields_ = [("way", c_char * 24), ("time_ns", c_double)]


OUT = POINTER(c_void_p)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "pagewise_error_message": (c_char_p, []),
    "pagewise_copy": (c_int, [c_int, c_int, c_uint64, c_uint32, POINTER(CopiedStruct)]),
    "pagewise_frozen_new": (c_int, [c_void_p, c_size_t, OUT]),
    "pagewise_frozen_open": (c_int, [c_int, c_size_t, OUT]),
    "pagewise_frozen_bytes": (c_void_p, [c_void_p]),
    "pagewise_frozen_length": (c_size_t, [c_void_p]),
    "pagewise_frozen_memfd": (c_int, [c_void_p]),
    "pagewise_frozen_send": (c_int, [c_void_p, c_int, c_size_t, c_size_t, POINTER(c_size_t)]),
    "pagewise_frozen_free": (None, [c_void_p]),
    "pagewise_writer_new": (c_int, [c_int, c_uint32, c_size_t, OUT]),
    "pagewise_writer_write": (c_int64, [c_void_p, c_void_p, c_size_t]),
    "pagewise_writer_send": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t, POINTER(c_size_t)]),
    "pagewise_writer_capacity": (c_size_t, [c_void_p]),
    "pagewise_writer_free": (None, [c_void_p]),
    "pagewise_reader_new": (c_int, [c_int, c_uint32, OUT]),
    "pagewise_reader_read": (c_int64, [c_void_p, c_void_p, c_size_t]),
    "pagewise_reader_skip": (c_int64, [c_void_p, c_uint64]),
    "pagewise_reader_free": (None, [c_void_p]),
    "pagewise_choose": (c_int, [c_char_p, c_uint32, c_uint64, c_uint32, c_uint32, POINTER(ChoiceStruct)]),
}


def _load() -> ctypes.CDLL:
    named = os.environ.get(VARIABLE)
    beside = Path(__file__).with_name(NAME)
    try:
        library = ctypes.CDLL(named or (str(beside) if beside.exists() else NAME))
        found = library.pagewise_abi_version()
    except (OSError, AttributeError) as error:
        raise ImportError(f"cannot load {NAME}: {error}; set {VARIABLE} to its path") from error
    if found != ABI_VERSION:
        raise ImportError(f"{NAME} has interface {found}, this package needs {ABI_VERSION}")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


LIBRARY = _load()


def message() -> str:
    """What the last call that failed in this thread said."""
    return LIBRARY.pagewise_error_message().decode(errors="replace")


def checked(answer: int) -> int:
    """The number that a function gave; a negative errno is raised as the OSError that it is."""
    if answer < 0:
        raise OSError(-answer, message())
    return answer


def descriptor(file: Descriptor) -> int:
    """The number of a descriptor."""
    if isinstance(file, io.TextIOBase):
        raise TypeError("a text file has no place for bytes: open it in binary mode")
    return file if isinstance(file, int) else file.fileno()


class _Buffer(ctypes.Structure):
    """`Py_buffer`."""

    _fields_ = [
        ("buf", c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", c_int), ("ndim", c_int), ("format", c_char_p),
        ("shape", c_void_p), ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p),
    ]


_GET = ctypes.pythonapi.PyObject_GetBuffer
_GET.restype, _GET.argtypes = c_int, [ctypes.py_object, POINTER(_Buffer), c_int]
_RELEASE = ctypes.pythonapi.PyBuffer_Release
_RELEASE.restype, _RELEASE.argtypes = None, [POINTER(_Buffer)]
_WRITABLE = 1


@contextlib.contextmanager
def memory(data: Any, writable: bool = False) -> Iterator[tuple[int | None, int]]:
    """Address and length of what an object holds, which stays there for as long as this lasts."""
    held = _Buffer()
    _GET(data, ctypes.byref(held), _WRITABLE if writable else 0)
    try:
        yield held.buf, held.len
    finally:
        _RELEASE(ctypes.byref(held))
