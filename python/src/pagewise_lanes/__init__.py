"""Moves bytes between descriptors and processes in the fastest way that is exact.

`copy` moves all bytes from one descriptor to another of any kind. `Frozen` holds bytes that never change again.
It passes them into a pipe by reference, and to another process through multiprocessing, without a copy. `Writer`
and `Reader` are ends of a pipe that wait adaptively. `choose` predicts the fastest way to read a file.

Units are bytes and seconds. Functions release the interpreter lock while they work, and may be called from any
thread. The package needs Linux and CPython.
"""

from ._choosing import Choice, choose
from ._copying import Copied, CopyError, copy
from ._frozen import Frozen, SendError
from ._pipes import Reader, Writer

__all__ = [
    "Choice",
    "Copied",
    "CopyError",
    "Frozen",
    "Reader",
    "SendError",
    "Writer",
    "choose",
    "copy",
]
