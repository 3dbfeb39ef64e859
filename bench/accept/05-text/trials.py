"""The programs that `05-text` tries, and how much each has to do.

Most are given so much work that a run takes SECONDS here: two runs of different work tell what a start and a
piece of work take. The amount is a part of the command that the result names.

Units: seconds.
"""

import contextlib
import glob
import math
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import harness

HERE = Path(__file__).resolve().parent
TUNE = HERE.parent / "01-tune"
SECONDS = 1.5
# Seconds that work beside a trial may take: longer than any trial does.
LIMIT = 600
SCALE = 10
# Beside the shares of the CPUs.
CLIENTS = [8, 16, 32]


class Trial:
    """A program to try: the name of its row, the word by which --only names it, options of bench text.

    `command(amount)` gives its words for so much work, a multiple of `least`, or for all work where there is
    no `least`. A program that is not at hand has a reason `why` instead. One that runs `beside` a load has
    a busy shell loop on one of the CPUs from before its first run to after its last."""

    def __init__(self, name, word, command=None, least=None, options=(), why="not installed", beside=False):
        self.name, self.word, self.command, self.least = name, word, command, least
        self.options, self.why, self.beside = list(options), why, beside

    def sized(self, account):
        """The words of a run that takes about SECONDS."""
        if self.least is None:
            return self.command(None)
        once(account, self.command(self.least))
        small, large = (once(account, self.command(times * self.least)) for times in (1, 3))
        # A start is not all of a short run, whatever the clock says.
        piece = max((large - small) / 2, small / 5)
        times = max(1, round((SECONDS - small) / piece) + 1)
        return self.command(times * self.least)


def once(account, words):
    """Seconds that a run takes."""
    ran = harness.run([*account.prefix, *words], LIMIT, **account.options)
    if ran.status != 0:
        raise harness.Unfit(f"{words[0]}: status {ran.status}, {ran.last_error()}")
    return ran.seconds


@contextlib.contextmanager
def busy_loop(account):
    """A shell that runs an empty loop on one CPU meanwhile."""
    words = ["timeout", str(LIMIT), "sh", "-c", "while :; do :; done"]
    child = subprocess.Popen(
        [*account.prefix, *words], stdin=subprocess.DEVNULL, start_new_session=True, **account.options
    )
    try:
        yield
    finally:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def which(name):
    """A program of the distribution; none where it is not installed."""
    return shutil.which(name, path=harness.PATH)


def own(account, name):
    """A copy of a file of ours that the account can read."""
    source = HERE / name if (HERE / name).exists() else TUNE / name
    copy = account.home / name
    if not copy.exists():
        shutil.copy(source, copy)
        copy.chmod(0o755)
    return str(copy)


def folded(account, program):
    """A folded copy of a program."""
    copy = account.home / Path(program).name
    once(account, [account.pagewise, "text", "fold", "--merge", program, "-o", str(copy)])
    return str(copy)


def compilers(account):
    """Compilers with templates to instantiate."""
    source = own(account, "records.cpp")
    for name in ("g++", "clang++"):
        found = which(name)
        words = [found, "-std=c++17", "-O2", "-c", source, "-o", "/dev/null"]
        yield Trial(name, name, found and (lambda n, words=words: [*words, f"-DCOUNT={n}"]), 1)


def interpreters(account):
    """Programs that execute other programs."""
    node = which("node")
    yield Trial("node", "node", node and (lambda n: [node, own(account, "work.js"), str(n)]), 1)
    found = which("python3")
    if found:
        copy = folded(account, os.path.realpath(found))
        script = own(account, "dictionary.py")
        yield Trial("python3", "python3", lambda n: [copy, "-S", script, str(n)], 100_000, ["--files", copy])
    java = which("java")
    # What the JVM writes for others to look at is a side effect of each run.
    words = [java, "-XX:-UsePerfData", own(account, "Work.java")]
    yield Trial("java", "java", java and (lambda n: [*words, str(n)]), 1)


def debugger(account):
    """gdb reading the debug information of an object of much code."""
    found, compiler = which("gdb"), which("g++")
    if not found or not compiler:
        yield Trial("gdb", "gdb", why="not installed, or no g++")
        return
    subject = str(account.home / "heavy.o")
    once(account, [compiler, "-std=c++17", "-g", "-c", own(account, "heavy.cpp"), "-o", subject])
    copy = folded(account, os.path.realpath(found))
    words = [copy, "-nx", "-batch", "-ex", "info functions", "-ex", "info types", subject]
    yield Trial("gdb", "gdb", lambda _: words, options=["--files", copy])


def clients(cores):
    """Numbers of clients: one, shares of the CPUs, and beyond."""
    return sorted({1, math.ceil(cores / 4), math.ceil(cores / 2), cores, *CLIENTS})


def databases(account):
    """A server with reading clients, as a folded copy; once beside a load."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not programs or not which("pgbench"):
        yield Trial("pgbench -S", "pgbench")
        return
    data = account.home / "cluster"
    binaries = Path(programs[-1]).parent
    account.env["PATH"] = f"{binaries}:{account.env['PATH']}"
    once(account, [str(binaries / "initdb"), "-N", "-A", "trust", "-D", str(data)])
    copy = folded(account, programs[-1])
    fill_cluster(account, programs[-1], data)
    cores = len(os.sched_getaffinity(0))

    def trial(count, name, word, beside=False):
        def command(transactions):
            return [own(account, "serve"), copy, str(data), str(count), str(transactions)]

        return Trial(name, word, command, 3000, ["--files", copy], beside=beside)

    for count in clients(cores):
        yield trial(count, f"pgbench -S, {count} client{'s' * (count > 1)}", "pgbench")
    name = f"pgbench -S, {cores} clients, beside a busy shell loop"
    yield trial(cores, name, "disturbed", beside=True)


def fill_cluster(account, server, data):
    """Lets pgbench make its tables."""
    start = (
        f"{shlex.quote(server)} -D {data} -k {data} -c listen_addresses= -c fsync=off "
        f"-c dynamic_shared_memory_type=mmap >{data}/log 2>&1 & "
        f"for i in $(seq 200); do pg_isready -q -h {data} -d postgres && break; sleep 0.05; done; "
        f"pgbench -q -i -s {SCALE} -h {data} postgres; status=$?; kill -INT $!; wait $!; exit $status"
    )
    once(account, ["sh", "-c", start])


# Who makes trials, and by which words those are named.
MAKERS = [
    (compilers, {"g++", "clang++"}),
    (interpreters, {"node", "python3", "java"}),
    (debugger, {"gdb"}),
    (databases, {"pgbench", "disturbed"}),
]


def choices():
    """What --only may name."""
    return sorted(set().union(*(made for _, made in MAKERS)))


def trials(account, only):
    """All of `only` (or all), in the order of the table."""
    for maker, made in MAKERS:
        wanted = made if only is None else made & only
        if not wanted:
            continue
        try:
            yield from (trial for trial in maker(account) if trial.word in wanted)
        except harness.Unfit as reason:
            yield Trial(maker.__name__, maker.__name__, why=str(reason))
