"""What the acceptance scripts share: the machine line, scratch space, bounded child processes,
the result file, and statistics written apart from the product's own.

Units: seconds. Nothing here imports or calls pagewise code; `pagewise()` only finds the program.
"""

import argparse
import contextlib
import datetime
import hashlib
import itertools
import json
import math
import mmap
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
USER = 65534
# Where programs are looked for: what an account without rights may execute.
PATH = "/usr/bin:/bin:/usr/local/bin"


class Unfit(Exception):
    """The script cannot run here; its message says why."""


def parser(doc):
    """An argument parser with the options that every script has."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--pagewise",
        type=Path,
        default=ROOT / "target" / "release" / "pagewise",
        help="the program to examine (default: target/release/pagewise)",
    )
    made.add_argument(
        "--results",
        type=Path,
        help="also write the result to this file (a full run writes the committed one by default)",
    )
    return made


class Account:
    """How programs are started: by root without rights, by anybody else as themselves."""

    def __init__(self, place, program, has_rights=False):
        place.chmod(0o755)
        self.place = place
        self.home = place / "home"
        self.home.mkdir()
        # A copy, since where the original lies may be closed to others.
        self.pagewise = str(place / "pagewise")
        shutil.copy(program, self.pagewise)
        os.chmod(self.pagewise, 0o755)
        self.prefix = []
        if os.geteuid() == 0 and not has_rights:
            os.chown(self.home, USER, USER)
            self.prefix = [
                "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all",
            ]
        self.env = {"HOME": str(self.home), "PATH": PATH, "LC_ALL": "C"}
        self.options = {"env": self.env, "cwd": self.home}

    def uid(self):
        """The user that programs run as."""
        return USER if self.prefix else os.geteuid()


def keep_full_run(arguments, to, full):
    """Chooses the committed file `to` for the result of a full run, unless another was named."""
    if full and arguments.results is None:
        arguments.results = to


def pagewise(arguments):
    """Absolute path of the program under test."""
    path = arguments.pagewise.resolve()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise Unfit(f"{path} does not exist: build it with `cargo build --release`")
    return str(path)


def program_line(path):
    """One line that names a program by its contents; without one the script builds its own."""
    if path is None:
        return "pagewise: built by this script"
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return f"pagewise: sha256 {digest[:16]}"


def read(path, default=""):
    """First line of a file, or `default`."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return default


def machine_line():
    """One line that names machine, kernel and the settings that matter."""
    model = "unknown CPU"
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    thp = read("/sys/kernel/mm/transparent_hugepage/enabled", "no THP")
    chosen = thp[thp.find("[") + 1 : thp.find("]")] if "[" in thp else thp
    return (
        f"{len(os.sched_getaffinity(0))} x {model}, {memory:.1f} GiB, Linux {os.uname().release}, "
        f"THP {chosen}, perf_event_paranoid {read('/proc/sys/kernel/perf_event_paranoid', '?')}, "
        f"uid {os.geteuid()}"
    )


class Result:
    """Lines that are printed as they come and saved at the end."""

    def __init__(self, title, arguments):
        self.path = arguments.results
        self.lines = []
        self.failures = 0
        self.program = program_line(arguments.pagewise)
        now = datetime.datetime.now(datetime.timezone.utc)
        self.say(title)
        self.say(f"machine: {machine_line()}")
        self.say(self.program)
        self.say(f"date: {now:%Y-%m-%d %H:%M} UTC")

    def say(self, text=""):
        """Adds a line."""
        print(text, flush=True)
        self.lines.append(text)

    def check(self, passed, text):
        """Adds a line with its verdict and counts the failures."""
        self.failures += not passed
        self.say(f"{'ok    ' if passed else 'FAILED'} {text}")
        return passed

    def end(self):
        """Writes the result file; gives the exit status."""
        self.say("all passed" if self.failures == 0 else f"{self.failures} failed")
        if self.path:
            self.path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
            print(f"written to {self.path}")
        return 0 if self.failures == 0 else 1


class Series:
    """Runs of a long series, kept after each one, so that it can be collected in parts.

    A kept line is `KEY TAB WORD TAB TEXT`. The first two lines say what was run and by which
    program: a part of another series or of another program is refused. A run whose word is `broken`
    is not kept: it fails the part in which it happened and is made again in the next."""

    def __init__(self, name, settings, arguments):
        self.head = [settings, program_line(arguments.pagewise)]
        # Another series has another file: a short one does not write over a long one.
        mark = hashlib.sha256("\n".join(self.head).encode()).hexdigest()[:8]
        self.path = ROOT / "target" / "accept" / f"{name}-{mark}.part"
        self.done = {}
        if arguments.resume:
            self.load(arguments.resume)
        elif self.path.exists():
            self.path.replace(self.path.with_suffix(".part.old"))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        print(f"each run is kept in {self.path}; go on with --continue {self.path}", flush=True)

    def load(self, path):
        """Takes over the runs of an earlier part."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise Unfit(f"{path}: {error.strerror}") from error
        if lines[:2] != self.head:
            raise Unfit(f"{path} is of another series or program: {lines[:2]}, not {self.head}")
        for line in lines[2:]:
            key, word, text = line.split("\t", 2)
            self.done[key] = (word, text)

    def run(self, key, once):
        """The word and the text of a run: the kept ones, or those that `once` gives now."""
        if key in self.done:
            return self.done[key]
        word, text = once()
        text = " ".join(text.split())
        if word != "broken":
            self.done[key] = (word, text)
            rows = [f"{key}\t{word}\t{text}" for key, (word, text) in self.done.items()]
            self.path.write_text("\n".join([*self.head, *rows]) + "\n", encoding="utf-8")
        return word, text


def add_continue(made):
    """The option of scripts with a long series."""
    made.add_argument(
        "--continue", dest="resume", type=Path, metavar="FILE",
        help="take over the runs that an earlier part kept in FILE",
    )


def table(rows):
    """Rows of texts as aligned lines; the first is the heading."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(str(c).ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]


@contextlib.contextmanager
def scratch(root=None):
    """A directory of our own (on `root`, where files must be on a disk) that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="pagewise-accept-", dir=root))
    try:
        yield path
    finally:
        # A script that is ended in the middle leaves servers that still write there.
        end_marked(str(path), 5)
        remove(path)


def remove(path):
    """Removes a directory in which something that was killed may be writing for a moment yet."""
    for _ in range(50):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(0.1)


class Ran:
    """How a bounded child ended."""

    def __init__(self, status, out, err, seconds, late):
        self.status, self.out, self.err = status, out, err
        self.seconds, self.late = seconds, late

    def last_error(self):
        """The last line of standard error, shortened."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        return lines[-1][:160] if lines else ""


def end_group(child):
    """Ends a child and its process group, by force where a signal is not enough; what it had said."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=10)
    # Somebody else holds its pipes.
    child.wait()
    return "", ""


def run(argv, limit, **options):
    """Runs `argv` in a process group of its own, killed after `limit` seconds."""
    options.setdefault("stdin", subprocess.DEVNULL)
    start = time.perf_counter()
    child = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        **options,
    )
    late = False
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        late = True
        out, err = end_group(child)
    except BaseException:
        end_group(child)
        raise
    return Ran(child.returncode, out, err, time.perf_counter() - start, late)


def marked(mark):
    """Living processes that carry the mark in arguments or environment: pid and command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in arguments or mark.encode() in environment:
            found.append(f"{pid} {arguments.replace(bytes(1), b' ').decode(errors='replace')[:80]}")
    return found


def end_marked(mark, limit):
    """Those that carry the mark and have not ended by themselves within `limit` seconds; now they have."""
    end = time.monotonic() + limit
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in [one.split()[0] for one in left]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return left


def timed(argv, **options):
    """Wall time of one run in seconds; its output is dropped. A failure raises `Unfit`."""
    start = time.perf_counter()
    status = subprocess.call(
        argv, stdin=options.pop("stdin", subprocess.DEVNULL), stdout=options.pop(
            "stdout", subprocess.DEVNULL), stderr=subprocess.DEVNULL, **options
    )
    seconds = time.perf_counter() - start
    if status != 0:
        raise Unfit(f"{argv[0]} ended with status {status}")
    return seconds


def write_in_pieces(path, size, piece):
    """A file of bytes by chance, written in pieces, which decide its folios, and on to the disk."""
    content = os.urandom(piece)
    with open(path, "wb", buffering=0) as file:
        for _ in range(size // piece):
            file.write(content)
        os.fsync(file.fileno())


def touch(size):
    """Touches `size` bytes, on huge pages where the kernel gives them."""
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError, AttributeError):
        # Refused where huge pages are not built in: base pages do as well, only slower.
        memory.madvise(mmap.MADV_HUGEPAGE)
    for offset in range(0, size, mmap.PAGESIZE):
        memory[offset] = 1


def back_memory(size):
    """Touches and frees `size` bytes in a child: in a virtual machine the host takes free memory
    back within seconds, and the next program would pay for that by its place in the order."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            touch(size)
            status = 0
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended != 0:
        raise Unfit(f"{size >> 20} MiB could not be touched before a run (status {ended})")


def quick_runs(result, scratch, arguments, bench, seconds):
    """Runs the short form of a bench without rights, then as this account. Returns who ran it and what it printed."""
    account, runs = Account(scratch, arguments.pagewise), []
    # Without rights first: other accounts cannot write the files that root leaves in the home.
    for prefix in (account.prefix, []) if account.prefix else ([],):
        ran = run([*prefix, account.pagewise, "bench", bench, "--quick", "--quiet"], 60, **account.options)
        who = "uid 65534" if prefix else f"uid {os.geteuid()}"
        parts = set(re.findall(r"^  (\w+) ", ran.out, re.MULTILINE))
        result.check(
            ran.status == 0 and ran.seconds < seconds and {"do", "from", "claims"} <= parts,
            f"--quick as {who}: status {ran.status}, {ran.seconds:.1f} s",
        )
        runs.append((who, ran.out))
    for line in ran.out.splitlines():
        result.say(f"    {line}")
    return runs


def saved(ran):
    """The JSON document on a child's standard output."""
    try:
        return json.loads(ran.out)
    except ValueError as error:
        reason = ran.last_error() or str(error)
        raise Unfit(f"no JSON (status {ran.status}): {reason}") from error


def verdicts(run_document):
    """Verdicts of a saved run by arm."""
    experiment = run_document.get("experiment") or {}
    return {v["arm"]: v for v in experiment.get("verdicts", [])}


def gain_shown(effect):
    """The gain of an arm with its interval; one from a tenth to ten times the plain program says nothing."""
    if not effect:
        return "no runs"
    low, high = effect["ratio_low"], effect["ratio_high"]
    interval = "open" if low <= 0.1 and high >= 10 else f"{1 - high:+.1%}..{1 - low:+.1%}"
    return f"{1 - effect['ratio']:+.1%} ({interval})"


def compile_c(source, to, *options):
    """Builds one of the small C programs."""
    if shutil.which("cc") is None:
        raise Unfit("no C compiler (apt: gcc libc6-dev)")
    built = run(["cc", "-O2", "-o", str(to), str(source), *options], 60)
    if built.status != 0:
        raise Unfit(f"cc {source}: {built.last_error()}")
    return str(to)


def busy_iterations(program, seconds):
    """Iterations of tests/programs/busy.c that take `seconds` here."""
    probe = 50_000_000
    took = min(timed([program, str(probe)]) for _ in range(5))
    return max(1, int(probe * seconds / took))


def signed_rank_interval(values, confidence=0.95):
    """Hodges-Lehmann estimate and exact signed-rank interval of the centre of `values`."""
    n = len(values)
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2))
    ways = [1] + [0] * len(means)
    for rank in range(1, n + 1):
        for total in range(len(means), rank - 1, -1):
            ways[total] += ways[total - rank]
    tail, cut = 0, 0
    while cut < len(means) // 2 and (tail + ways[cut]) / 2**n <= (1 - confidence) / 2:
        tail += ways[cut]
        cut += 1
    index = max(cut - 1, 0)
    return statistics.median(means), means[index], means[-1 - index]


def ratio_interval(pairs, confidence=0.95):
    """Ratio second / first over pairs of times: estimate, low, high."""
    logs = [math.log(second / first) for first, second in pairs]
    return tuple(math.exp(v) for v in signed_rank_interval(logs, confidence))


def interleaved(first, second, pairs, seed):
    """Times of `pairs` pairs, the order within each drawn anew."""
    source = random.Random(seed)
    times = []
    for _ in range(pairs):
        if source.random() < 0.5:
            a, b = first(), second()
        else:
            b, a = second(), first()
        times.append((a, b))
    return times


def main(body):
    """Runs a script's body: its own end, `Unfit` as skipped (status 3), signals as exits.

    Runs are saved in a scratch directory: those of the user stay in their list.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell starts background jobs with SIGINT ignored, and programs below would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with scratch() as state:
            os.environ["XDG_STATE_HOME"] = str(state)
            sys.exit(body())
    except Unfit as reason:
        print(f"SKIP {Path(sys.argv[0]).resolve().parent.name}: {reason}")
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
