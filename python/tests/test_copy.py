"""Copies: between kinds of files, with limits and buffers, and errors with their side."""

import io
import os
import tempfile
import threading
import unittest

import pagewise_lanes as lanes

CONTENT = bytes(range(256)) * 5_000


def file_of(content):
    """A buffered file that holds some bytes, at its beginning."""
    file = tempfile.TemporaryFile()
    file.write(content)
    file.seek(0)
    return file


class Copying(unittest.TestCase):
    """`copy`."""

    def test_from_a_file_through_a_pipe_to_a_file(self):
        reading, writing = os.pipe()
        with file_of(CONTENT) as source, tempfile.TemporaryFile() as sink:
            def fill():
                try:
                    self.assertEqual(lanes.copy(source, writing).bytes, len(CONTENT))
                finally:
                    os.close(writing)
            filling = threading.Thread(target=fill)
            filling.start()
            copied = lanes.copy(reading, sink)
            filling.join()
            os.close(reading)
            self.assertEqual(copied.bytes, len(CONTENT))
            self.assertTrue(copied.way)
            sink.seek(0)
            self.assertEqual(sink.read(), CONTENT)

    def test_positions_of_buffered_files_are_kept(self):
        with file_of(CONTENT) as source, tempfile.TemporaryFile() as sink:
            self.assertEqual(source.read(10), CONTENT[:10])
            sink.write(b"head ")
            self.assertEqual(lanes.copy(source, sink, 100).bytes, 100)
            self.assertEqual((source.tell(), sink.tell()), (110, 105))
            self.assertEqual(source.read(5), CONTENT[110:115])
            sink.write(b" tail")
            sink.seek(0)
            self.assertEqual(sink.read(), b"head " + CONTENT[10:110] + b" tail")

    def test_an_end_and_a_limit_of_nothing(self):
        with file_of(b"") as source, tempfile.TemporaryFile() as sink:
            self.assertEqual(lanes.copy(source, sink), (0, ""))
            self.assertEqual(lanes.copy(source, sink, 0), (0, ""))

    def test_an_error_names_its_side(self):
        reading, writing = os.pipe()
        os.close(reading)
        with file_of(CONTENT) as source, self.assertRaises(lanes.CopyError) as caught:
            lanes.copy(source, writing)
        os.close(writing)
        self.assertEqual((caught.exception.side, caught.exception.moved), ("sink", 0))
        self.assertIn("sink", str(caught.exception))

    def test_text_files_are_refused(self):
        with tempfile.TemporaryFile("w+") as text, self.assertRaises(TypeError):
            lanes.copy(text, 1)

    def test_what_has_no_descriptor_is_refused(self):
        with self.assertRaises(io.UnsupportedOperation):
            lanes.copy(io.BytesIO(b"x"), 1)


if __name__ == "__main__":
    unittest.main()
