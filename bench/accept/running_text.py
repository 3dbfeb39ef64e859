"""What the scripts on code on huge pages share: programs that run and wait, and what `smaps` says of the
code that they map. Nothing here imports or calls pagewise code; `ask` runs it.
"""

import contextlib
import glob
import hashlib
import os
import shutil
import subprocess
import time

import harness

MIB = 1 << 20
SLOT = 2 * MIB
KB = 1024
PAGE = os.sysconf("SC_PAGE_SIZE")
SOURCE = "#include <iostream>\n#include <map>\n#include <regex>\nint main() { std::regex r(\"a*\"); return 0; }\n"


def digest(path):
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def mappings(pid, path, right="x"):
    """Mappings of a file in a process, executable ones or those with another right: first and last address and
    offset, and what smaps counts of each in bytes."""
    found, ours = [], False
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and ":" not in words[0]:
                ours = len(words) >= 6 and words[5] == path and right in words[1]
                if ours:
                    start, end = (int(part, 16) for part in words[0].split("-"))
                    found.append(((start, end, int(words[2], 16)), {}))
            elif ours and words[-1] == "kB":
                found[-1][1][words[0].rstrip(":")] = int(words[1]) * KB
    return found


def text_of(pid, path, right="x"):
    """The same as places, and bytes mapped huge."""
    found = mappings(pid, path, right)
    return [place for place, _ in found], sum(counts.get("FilePmdMapped", 0) for _, counts in found)


def size_of(ranges):
    """Bytes of the file that are mapped."""
    pages = set()
    for start, end, offset in ranges:
        pages.update(range(offset // PAGE, (offset + end - start) // PAGE))
    return len(pages) * PAGE


def touch(pid, ranges, step=SLOT):
    """Reads a byte of each slot, or of as much, as if the process had."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end, _ in ranges:
            for at in range(start, end, step):
                memory.seek(at)
                memory.read(1)


class Program:
    """A program, or a library in a host: its file, and how it is started so that it waits.

    `feed` goes to its standard input, which stays open; one that `says` something is waited for."""

    def __init__(self, name, file, words, feed="", says=False, host=()):
        self.name, self.file, self.words = name, file, list(words)
        self.feed, self.says, self.host = feed, says, list(host)

    def argv(self, file):
        """The command that runs `file`: its own, or a copy of it."""
        return [*self.host, file, *self.words]


def compiler():
    """cc1plus, which reads its source to the end before it compiles; none where it is not installed."""
    found = sorted(glob.glob("/usr/lib*/gcc/*/*/cc1plus"))
    return Program("cc1plus", found[-1], ["-quiet", "-o", "/dev/null"], SOURCE) if found else None


def node():
    """node; none where it is not installed."""
    found = shutil.which("node", path=harness.PATH)
    words = ["-e", "console.log('ready'); setTimeout(() => {}, 60000)"]
    return Program("node", os.path.realpath(found), words, says=True) if found else None


class Running:
    """A program of the account that has begun its work and waits."""

    def __init__(self, account, program, file):
        self.path = file
        self.child = subprocess.Popen(
            [*account.prefix, *program.argv(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, **account.options,
        )
        self.child.stdin.write(program.feed)
        self.child.stdin.flush()
        self.said = self.child.stdout.readline() if program.says else ""
        self.wait_for_text()

    def wait_for_text(self):
        """Waits until the program maps its text, after exec."""
        for _ in range(500):
            if text_of(self.child.pid, self.path)[0]:
                return
            time.sleep(0.01)
        raise harness.Unfit(f"{self.path} does not start")

    def text(self, touched=False):
        """Bytes of text, and bytes of it on huge pages."""
        ranges, huge = text_of(self.child.pid, self.path)
        if touched:
            touch(self.child.pid, ranges)
            huge = text_of(self.child.pid, self.path)[1]
        return size_of(ranges), huge

    def end(self):
        """Ends it."""
        self.child.kill()
        self.child.communicate()


@contextlib.contextmanager
def running(account, program, file=None):
    """A program, or another file in its place, that runs for as long as it is looked at."""
    started = Running(account, program, file or program.file)
    try:
        yield started
    finally:
        started.end()


def ask(account, *words):
    """A command of the program, and what it said in its saved form."""
    ran = harness.run([*account.prefix, account.pagewise, *words], 60, **account.options)
    return ran, harness.saved(ran)


def share(part, whole):
    """Megabytes and percent."""
    return f"{part / MIB:.1f} of {whole / MIB:.1f} MiB ({part / whole:.1%})"
