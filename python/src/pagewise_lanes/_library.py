"""The C library: its location, the arguments of its functions, and memory in the form that it takes.

The declarations are those of `pagewise.h` that the package uses. ctypes truncates numbers to the size of their type
and accepts any pointer for any other. So each function here checks its arguments first: a number must fit, and an
object must be of the kind that the function takes.

Signals: Python runs handlers between its own instructions, never during a call of the library. So a call that waits
ends with EINTR, and the loop around it continues. Python holds no lock during the handler. The handler may use, or
close, the objects that the interrupted call uses.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import operator
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator, Protocol, Union

ABI_VERSION = 2
NAME = "libpagewise_capi.so"
VARIABLE = "PAGEWISE_LANES_LIBRARY"


class HasDescriptor(Protocol):
    """A file, a socket or an end of a pipe."""

    def fileno(self) -> int:
        """Returns the number of its descriptor."""
        ...


Descriptor = Union[int, HasDescriptor]


class CopiedStruct(ctypes.Structure):
    """`pagewise_copied`."""

    _fields_ = [("bytes", c_uint64), ("side", ctypes.c_int32), ("way", c_char * 28)]


class ChoiceStruct(ctypes.Structure):
    """`pagewise_choice`."""

    _fields_ = [("way", c_char * 24), ("time_ns", c_double)]


class Handle:
    """An object of the library. It is freed with the last reference; a call that uses it keeps one."""

    __slots__ = ("_free", "kind", "pointer")

    def __init__(self, kind: str, pointer: c_void_p) -> None:
        self.kind, self.pointer = kind, pointer
        self._free = getattr(LIBRARY, f"pagewise_{kind}_free")

    def __del__(self) -> None:
        self._free(self)


class _Number:
    """Checks that a number fits the C type."""

    def __init__(self, ctype: Any, lowest: int, highest: int) -> None:
        self.ctype, self._lowest, self._highest = ctype, lowest, highest

    def __call__(self, value: Any) -> int:
        number = operator.index(value)
        if number < 0 == self._lowest:
            raise ValueError(f"{number} is negative")
        if not self._lowest <= number <= self._highest:
            raise OverflowError(f"{number} is too large")
        return number


class _Kind:
    """Checks that a handle is of one kind."""

    ctype = c_void_p

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, value: Any) -> c_void_p:
        if not isinstance(value, Handle) or value.kind != self._name:
            raise TypeError(f"a {self._name} is wanted, not {type(value).__name__}")
        return value.pointer


class _Plain:
    """An argument that needs no check: memory of this package, or memory for results."""

    def __init__(self, ctype: Any) -> None:
        self.ctype = ctype

    def __call__(self, value: Any) -> Any:
        return value


INT = _Number(c_int, -(2**31), 2**31 - 1)
UINT32 = _Number(c_uint32, 0, 2**32 - 1)
UINT64 = _Number(c_uint64, 0, 2**64 - 1)
SIZE = _Number(c_size_t, 0, ctypes.c_size_t(-1).value)
TEXT, MEMORY, OUT = _Plain(c_char_p), _Plain(c_void_p), _Plain(POINTER(c_void_p))
COPIED, CHOICE, COUNT = _Plain(POINTER(CopiedStruct)), _Plain(POINTER(ChoiceStruct)), _Plain(POINTER(c_size_t))
COPIER, FROZEN, WRITER, READER = _Kind("copier"), _Kind("frozen"), _Kind("writer"), _Kind("reader")

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "pagewise_error_message": (c_char_p, []),
    "pagewise_copier_new": (c_int, [INT, INT, UINT64, UINT32, OUT]),
    "pagewise_copier_run": (c_int, [COPIER, COPIED]),
    "pagewise_copier_free": (None, [COPIER]),
    "pagewise_frozen_new": (c_int, [MEMORY, SIZE, OUT]),
    "pagewise_frozen_open": (c_int, [INT, SIZE, OUT]),
    "pagewise_frozen_bytes": (c_void_p, [FROZEN]),
    "pagewise_frozen_length": (c_size_t, [FROZEN]),
    "pagewise_frozen_memfd": (c_int, [FROZEN]),
    "pagewise_frozen_send": (c_int, [FROZEN, INT, SIZE, SIZE, COUNT]),
    "pagewise_frozen_free": (None, [FROZEN]),
    "pagewise_writer_new": (c_int, [INT, UINT32, SIZE, OUT]),
    "pagewise_writer_write": (c_int64, [WRITER, MEMORY, SIZE]),
    "pagewise_writer_send": (c_int, [WRITER, FROZEN, SIZE, SIZE, COUNT]),
    "pagewise_writer_capacity": (c_size_t, [WRITER]),
    "pagewise_writer_stop": (None, [WRITER]),
    "pagewise_writer_free": (None, [WRITER]),
    "pagewise_reader_new": (c_int, [INT, UINT32, OUT]),
    "pagewise_reader_read": (c_int64, [READER, MEMORY, SIZE]),
    "pagewise_reader_skip": (c_int64, [READER, UINT64]),
    "pagewise_reader_stop": (None, [READER]),
    "pagewise_reader_free": (None, [READER]),
    "pagewise_choose": (c_int, [TEXT, UINT32, UINT64, UINT32, UINT32, CHOICE]),
}

# These run under the interpreter lock, so that no other thread changes the bytes that they read.
LOCKED = {"pagewise_frozen_new_locked": "pagewise_frozen_new"}


def _bound(library: ctypes.CDLL, name: str) -> Callable[..., Any]:
    """Returns a function of the library that checks its arguments."""
    function = getattr(library, name)
    result, kinds = FUNCTIONS[name]
    function.restype, function.argtypes = result, [kind.ctype for kind in kinds]

    def call(*arguments: Any) -> Any:
        if len(arguments) != len(kinds):
            raise TypeError(f"{name} takes {len(kinds)} arguments")
        return function(*[kind(argument) for kind, argument in zip(kinds, arguments)])

    return call


def _load() -> SimpleNamespace:
    named = os.environ.get(VARIABLE)
    beside = Path(__file__).with_name(NAME)
    path = named or (str(beside) if beside.exists() else NAME)
    try:
        library, locked = ctypes.CDLL(path), ctypes.PyDLL(path)
        found = library.pagewise_abi_version()
    except (OSError, AttributeError) as error:
        raise ImportError(f"cannot load {NAME}: {error}; set {VARIABLE} to its path") from error
    if found != ABI_VERSION:
        raise ImportError(f"{NAME} has interface {found}, this package needs {ABI_VERSION}")
    functions = {name: _bound(library, name) for name in FUNCTIONS}
    functions.update({ours: _bound(locked, theirs) for ours, theirs in LOCKED.items()})
    return SimpleNamespace(**functions)


LIBRARY = _load()


def made(kind: str, *arguments: Any) -> Handle:
    """Makes a new object of the library."""
    pointer = c_void_p()
    checked(getattr(LIBRARY, f"pagewise_{kind}")(*arguments, ctypes.byref(pointer)))
    return Handle(kind.partition("_")[0], pointer)


# Most bytes of one call. Signal handlers run between calls.
PIECE = 64 * 1024 * 1024


class SendError(OSError):
    """A move that ended early. The first `taken` bytes were moved."""

    taken: int


def message() -> str:
    """Returns the message of the last failed call in this thread."""
    return LIBRARY.pagewise_error_message().decode(errors="replace")


def checked(answer: int) -> int:
    """Returns the number that a function returned. A negative errno is raised as an OSError."""
    if answer < 0:
        raise OSError(-answer, message())
    return answer


def descriptor(file: Descriptor) -> int:
    """Returns the number of a descriptor."""
    if isinstance(file, io.TextIOBase):
        raise TypeError("a text file has no place for bytes: open it in binary mode")
    return INT(file if isinstance(file, int) else file.fileno())


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


class _Held:
    """A buffer that stays in place until it is released, or until no reference to it is left."""

    def __init__(self, data: Any, flags: int) -> None:
        self.buffer = _Buffer()
        _GET(data, ctypes.byref(self.buffer), flags)

    def release(self) -> None:
        """Releases the buffer. A second call is allowed."""
        _RELEASE(ctypes.byref(self.buffer))

    # A handler may raise between any two instructions.
    __del__ = release


@contextlib.contextmanager
def memory(data: Any, writable: bool = False) -> Iterator[tuple[int | None, int]]:
    """Gives address and length of an object's bytes, which stay in place inside the `with` block."""
    held = _Held(data, _WRITABLE if writable else 0)
    try:
        yield held.buffer.buf, held.buffer.len
    finally:
        held.release()


def pieces(length: int, call: Callable[[int, int], int]) -> int:
    """Processes `length` bytes through `call`. It gets the number of bytes done so far and the most to do now. It
    returns the number that it did, 0 at the end, or a negative errno.

    Returns the number of bytes done. Raises an `OSError` with that number in `taken`.
    """
    done = 0
    while done < length:
        some = call(done, min(length - done, PIECE))
        if some > 0:
            done += some
        elif some == 0:
            break
        elif some != -errno.EINTR:
            error = SendError(-some, message())
            error.taken = done
            raise error
    return done
