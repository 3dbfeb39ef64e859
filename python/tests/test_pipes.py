"""Ends of a pipe, and the choice of a way to read."""

import errno
import os
import signal
import tempfile
import threading
import unittest

import pagewise_lanes as lanes

CONTENT = bytes(range(253)) * 10_000


def ends(**options):
    """A reader and a writer of a new pipe."""
    reading, writing = os.pipe()
    made = lanes.Reader(reading), lanes.Writer(writing, **options)
    os.close(reading)
    os.close(writing)
    return made


class Ends(unittest.TestCase):
    """`Reader` and `Writer`."""

    def test_bytes_arrive_in_order(self):
        for wait in ("adaptive", "block", "busy"):
            reader, writer = ends(wait=wait)
            frozen = lanes.Frozen(CONTENT)

            def fill():
                with writer:
                    writer.write_all(CONTENT)
                    writer.send(frozen, 1000)
            filling = threading.Thread(target=fill)
            filling.start()
            with reader:
                self.assertEqual(reader.skip(100), 100)
                self.assertTrue(reader.readall() == CONTENT[100:] + CONTENT[1000:], wait)
                self.assertEqual(reader.skip(1), 0)
            filling.join()

    def test_a_pipe_grows_only_where_asked(self):
        reader, writer = ends(capacity=0)
        before = writer.capacity()
        reader.close()
        writer.close()
        reader, writer = ends()
        self.assertGreaterEqual(writer.capacity(), before)
        reader.close()
        writer.close()

    def test_a_closed_end_says_so(self):
        reader, writer = ends()
        reader.close()
        reader.close()
        with self.assertRaises(ValueError):
            reader.readinto(bytearray(1))
        with self.assertRaises(BrokenPipeError):
            writer.write(b"x")
        with self.assertRaises(lanes.SendError) as caught:
            writer.send(lanes.Frozen(b"x"))
        self.assertEqual(caught.exception.errno, errno.EPIPE)
        writer.close()

    def test_a_signal_interrupts_a_wait(self):
        class Rung(Exception):
            """Raised by the handler."""

        def ring(*_):
            raise Rung
        reader, writer = ends()
        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        try:
            with self.assertRaises(Rung):
                reader.read(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        reader.close()
        writer.close()

    def test_unknown_words_are_refused(self):
        with self.assertRaises(KeyError):
            lanes.Reader(0, wait="never")


class Choosing(unittest.TestCase):
    """`choose`."""

    def test_what_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as empty, tempfile.NamedTemporaryFile() as file:
            file.write(CONTENT)
            file.flush()
            os.environ["XDG_CACHE_HOME"] = empty
            try:
                with self.assertRaises(OSError) as caught:
                    lanes.choose(file.name)
            finally:
                del os.environ["XDG_CACHE_HOME"]
        self.assertEqual(caught.exception.errno, errno.ENODATA)
        self.assertIn("--calibrate", str(caught.exception))
        with self.assertRaises(FileNotFoundError):
            lanes.choose("/nothing/here")


if __name__ == "__main__":
    unittest.main()
