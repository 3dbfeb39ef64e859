"""Frozen bytes: their views, what they are sent to, and the processes that share them."""

import array
import gc
import multiprocessing
import os
import pickle
import sys
import tempfile
import unittest

import pagewise_lanes as lanes

CONTENT = bytes(range(251)) * 4_000


def answer(connection):
    """In a child: receives frozen bytes and says what it sees."""
    frozen = connection.recv()
    connection.send((type(frozen).__name__, len(frozen), bytes(frozen) == CONTENT, frozen.memfd() > 0))


def is_sealed(frozen):
    """Whether sealed files are allowed here."""
    try:
        return frozen.memfd() >= 0
    except OSError:
        return False


class FrozenBytes(unittest.TestCase):
    """`Frozen`."""

    def test_any_buffer_is_copied(self):
        numbers = array.array("d", [1.5, 2.5])
        for data in (b"bytes", bytearray(b"array"), memoryview(b"view")[1:], numbers, b""):
            frozen = lanes.Frozen(data)
            self.assertEqual(bytes(frozen), bytes(data))
            self.assertEqual((len(frozen), len(frozen.view)), (len(bytes(data)),) * 2)
        with self.assertRaises(TypeError):
            lanes.Frozen("text")
        with self.assertRaises(BufferError):
            lanes.Frozen(memoryview(b"abcdef")[::2])

    def test_later_changes_do_not_show(self):
        data = bytearray(b"before")
        frozen = lanes.Frozen(data)
        data[:] = b"after!"
        self.assertEqual(bytes(frozen), b"before")

    def test_views_are_read_only_and_outlive_the_object(self):
        frozen = lanes.Frozen(CONTENT)
        part = frozen.view[100:200]
        self.assertTrue(part.readonly)
        with self.assertRaises(TypeError):
            part[0] = 1
        del frozen
        gc.collect()
        self.assertEqual(bytes(part), CONTENT[100:200])
        self.assertEqual(part[1], CONTENT[101])

    @unittest.skipIf(sys.version_info < (3, 12), "the buffer protocol of classes is of Python 3.12")
    def test_it_has_the_buffer_protocol(self):
        self.assertEqual(memoryview(lanes.Frozen(b"abc")), b"abc")

    def test_it_goes_to_pipes_and_files(self):
        frozen = lanes.Frozen(b"0123456789")
        reading, writing = os.pipe()
        self.assertEqual(frozen.send(writing, 2, 3), 3)
        self.assertEqual(frozen.send(writing, 8), 2)
        self.assertEqual(os.read(reading, 100), b"23489")
        with tempfile.TemporaryFile() as file:
            file.write(b">")
            frozen.send(file)
            file.seek(0)
            self.assertEqual(file.read(), b">0123456789")
        with self.assertRaises(lanes.SendError) as caught:
            frozen.send(writing, 5, 6)
        self.assertEqual(caught.exception.taken, 0)
        os.close(reading)
        os.close(writing)

    def test_another_process_gets_the_same_memory(self):
        frozen = lanes.Frozen(CONTENT)
        if not is_sealed(frozen):
            self.skipTest("sealed files are not allowed here")
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        child = context.Process(target=answer, args=(theirs,))
        child.start()
        ours.send(frozen)
        self.assertEqual(ours.recv(), ("Frozen", len(CONTENT), True, True))
        child.join()

    def test_only_sealed_files_are_taken(self):
        with tempfile.TemporaryFile() as file, self.assertRaises(OSError):
            lanes.Frozen.from_memfd(file, 1)
        file = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
        os.truncate(file, 100)
        with self.assertRaises(PermissionError):
            lanes.Frozen.from_memfd(file, 100)
        os.close(file)

    def test_an_ordinary_pickle_is_refused(self):
        with self.assertRaises(TypeError):
            pickle.dumps(lanes.Frozen(b"abc"))


if __name__ == "__main__":
    unittest.main()
