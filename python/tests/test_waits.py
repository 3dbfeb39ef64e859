"""Waits: handlers of signals run in them, may use and close what waits, and other threads may close it."""

import errno
import os
import signal
import sys
import tempfile
import threading
import time
import unittest

import pagewise_lanes as lanes

LARGE = bytes(8 << 20)
WAITS = ("adaptive", "block", "busy")


class Rung(Exception):
    """Raised by a handler."""


class Waiting(unittest.TestCase):
    """A wait that nothing but the test ends. A test that hangs ends the process, with the place."""

    def setUp(self):
        self.reading, self.writing = os.pipe()
        self.handler = signal.getsignal(signal.SIGALRM)
        self.watch = threading.Timer(60, self.give_up)
        self.watch.daemon = True
        self.watch.start()

    def tearDown(self):
        self.watch.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.handler)
        os.close(self.reading)
        os.close(self.writing)

    def give_up(self):
        """Ends a test that hangs."""
        sys.stderr.write(f"{self.id()} hangs\n")
        sys.stderr.flush()
        os._exit(3)

    def ring(self, handler):
        """Has SIGALRM come again and again, handled so."""
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    def renew(self):
        """An empty pipe instead of the last."""
        os.close(self.reading)
        os.close(self.writing)
        self.reading, self.writing = os.pipe()

    def calls(self, wait="adaptive"):
        """Every call that waits for the other end of a new pipe."""
        self.renew()
        frozen = lanes.Frozen(LARGE)
        null = os.open("/dev/null", os.O_WRONLY)
        zero = os.open("/dev/zero", os.O_RDONLY)
        self.addCleanup(os.close, null)
        self.addCleanup(os.close, zero)
        writer = lanes.Writer(self.writing, wait=wait)
        reader = lanes.Reader(self.reading, wait=wait)
        self.addCleanup(writer.close)
        self.addCleanup(reader.close)
        return {
            "read": lambda: reader.read(10),
            "skip": lambda: reader.skip(10),
            "copy from": lambda: lanes.copy(self.reading, null),
            "write": lambda: writer.write_all(LARGE),
            "send": lambda: writer.send(frozen),
            "Frozen.send": lambda: frozen.send(self.writing),
            "copy to": lambda: lanes.copy(zero, self.writing),
            "copy live": lambda: lanes.copy(zero, self.writing, live=True),
        }

    def test_a_handler_that_raises_ends_every_wait(self):
        def raise_it(*_):
            raise Rung

        for wait in WAITS:
            for name in self.calls():
                call = self.calls(wait)[name]
                with self.subTest(f"{name}, {wait}"):
                    self.ring(raise_it)
                    with self.assertRaises(Rung):
                        call()
                    signal.setitimer(signal.ITIMER_REAL, 0)

    def test_a_handler_that_returns_loses_nothing(self):
        content = bytes(range(251)) * 40_000
        rung = []
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            writer = lanes.Writer(self.writing)
            ways = {
                "copy": lambda: lanes.copy(file, self.writing),
                "write": lambda: writer.write_all(content),
                "send": lambda: writer.send(lanes.Frozen(content)),
                "Frozen.send": lambda: lanes.Frozen(content).send(self.writing),
            }
            for name, call in ways.items():
                with self.subTest(name):
                    got = bytearray()

                    def drain():
                        while len(got) < len(content):
                            got.extend(os.read(self.reading, 1 << 16))
                            time.sleep(0.002)
                    draining = threading.Thread(target=drain)
                    draining.start()
                    signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
                    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
                    call()
                    draining.join()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    self.assertTrue(got == content)
            writer.close()
        self.assertTrue(rung)

    def test_a_handler_may_use_what_waits(self):
        for wait in WAITS:
            self.renew()
            with lanes.Writer(self.writing, wait=wait) as writer:
                seen = []

                def look(*_):
                    seen.append(writer.capacity())
                    if len(seen) == 3:
                        raise Rung
                self.ring(look)
                with self.assertRaises(Rung):
                    writer.write_all(LARGE)
                signal.setitimer(signal.ITIMER_REAL, 0)
                self.assertEqual(len(seen), 3)

    def test_a_handler_may_close_what_waits(self):
        for wait in WAITS:
            for name in ("read", "skip", "write", "send"):
                with self.subTest(f"{name}, {wait}"):
                    call = self.calls(wait)[name]
                    end = next(
                        cell.cell_contents for cell in call.__closure__
                        if isinstance(cell.cell_contents, (lanes.Writer, lanes.Reader))
                    )
                    self.ring(lambda *_: end.close())
                    with self.assertRaisesRegex(ValueError, "closed"):
                        call()
                    signal.setitimer(signal.ITIMER_REAL, 0)

    def test_another_thread_may_close_what_waits(self):
        frozen = lanes.Frozen(LARGE)
        for wait in WAITS:
            for make, call in (
                (lambda: lanes.Writer(self.writing, wait=wait), lambda end: end.write_all(LARGE)),
                (lambda: lanes.Writer(self.writing, wait=wait), lambda end: end.send(frozen)),
                (lambda: lanes.Reader(self.reading, wait=wait), lambda end: end.read(1 << 20)),
                (lambda: lanes.Reader(self.reading, wait=wait), lambda end: end.skip(1 << 30)),
            ):
                self.renew()
                end, errors = make(), []

                def wait_for_it():
                    try:
                        while True:
                            call(end)
                    except (OSError, ValueError) as error:
                        errors.append(error)
                # Two: one waits for the pipe, the other for its turn.
                threads = [threading.Thread(target=wait_for_it) for _ in range(2)]
                for thread in threads:
                    thread.start()
                time.sleep(0.1)
                end.close()
                for thread in threads:
                    thread.join()
                for error in errors:
                    self.assertTrue(isinstance(error, ValueError) or error.errno == errno.ECANCELED, error)

    def test_a_turn_is_waited_for_with_handlers(self):
        with lanes.Writer(self.writing) as writer:
            def fill():
                try:
                    writer.write_all(LARGE)
                except (OSError, ValueError):
                    pass

            def raise_it(*_):
                raise Rung
            other = threading.Thread(target=fill)
            other.start()
            time.sleep(0.1)
            self.ring(raise_it)
            with self.assertRaises(Rung):
                writer.write(b"x")
            signal.setitimer(signal.ITIMER_REAL, 0)
            writer.close()
            other.join()


class Arguments(unittest.TestCase):
    """What is refused instead of being cut or taken for something else."""

    def test_numbers_that_do_not_fit(self):
        frozen = lanes.Frozen(b"0123456789")
        reading, writing = os.pipe()
        with lanes.Reader(reading) as reader, lanes.Writer(writing) as writer:
            for call in (
                lambda: frozen.send(writing + 2**32),
                lambda: lanes.Writer(writing + 2**32),
                lambda: lanes.Reader(reading + 2**32),
                lambda: lanes.copy(reading + 2**32, writing),
                lambda: lanes.copy(reading, writing, 2**64 + 5),
                lambda: lanes.Frozen.from_memfd(reading + 2**32, 1),
                lambda: lanes.Frozen.from_memfd(reading, 2**64 + 1),
                lambda: lanes.Writer(writing, capacity=2**64 + 4096),
                lambda: writer.send(frozen, 2**64 + 5),
                lambda: writer.send(frozen, 0, 2**64 + 5),
                lambda: frozen.send(writing, 2**64 + 5),
                lambda: reader.skip(2**64 + 5),
                lambda: lanes.choose("/proc/self/exe", threads=2**32 + 1),
                lambda: lanes.choose("/proc/self/exe", block=2**64 + 512),
            ):
                with self.assertRaises(OverflowError):
                    call()
            for call in (
                lambda: reader.skip(-1),
                lambda: frozen.send(writing, -1),
                lambda: frozen.send(writing, 0, -1),
                lambda: writer.send(frozen, -1),
                lambda: lanes.copy(reading, writing, -1),
                lambda: lanes.Writer(writing, capacity=-1),
            ):
                with self.assertRaises(ValueError):
                    call()
            for call in (
                lambda: reader.skip(1.5),
                lambda: lanes.copy(reading, writing, "5"),
                lambda: frozen.send("1"),
            ):
                with self.assertRaises((TypeError, AttributeError)):
                    call()
        os.close(reading)
        os.close(writing)

    def test_objects_of_another_class(self):
        reading, writing = os.pipe()
        with lanes.Reader(reading) as reader, lanes.Writer(writing) as writer:
            for other in (reader, writer, b"bytes", None, 7):
                with self.assertRaises(TypeError):
                    writer.send(other, 0, 1)

            class Feigned(lanes.Frozen):
                """A subclass whose handle is another's."""

                def __init__(self):
                    self._handle, self._length, self._view = reader._handle, 16, None
            with self.assertRaises(TypeError):
                writer.send(Feigned(), 0, 16)
            with self.assertRaises(TypeError):
                Feigned().send(writing)
        os.close(reading)
        os.close(writing)

    def test_what_changes_is_copied_whole(self):
        data, ends = bytearray(4 << 20), threading.Event()

        def change():
            value = 0
            while not ends.is_set():
                value ^= 255
                data[:] = bytes([value]) * len(data)
        changing = threading.Thread(target=change)
        changing.start()
        try:
            for given in (data, memoryview(data), memoryview(data).toreadonly()):
                for _ in range(15):
                    seen = set(bytes(lanes.Frozen(given))[::4096])
                    self.assertEqual(len(seen), 1)
        finally:
            ends.set()
            changing.join()


if __name__ == "__main__":
    unittest.main()
