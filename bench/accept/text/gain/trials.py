"""The programs that `text/gain` tries."""

import os

import databases
import harness
from trial import Trial, folded, once, own, which


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
    # The JVM's files for monitoring tools would be a side effect of each run.
    words = [java, "-XX:-UsePerfData", own(account, "Work.java")]
    yield Trial("java", "java", java and (lambda n: [*words, str(n)]), 1)


def debugger(account):
    """gdb reading the debug information of an object with much code."""
    found, compiler = which("gdb"), which("g++")
    if not found or not compiler:
        yield Trial("gdb", "gdb", why="not installed, or no g++")
        return
    subject = str(account.home / "heavy.o")
    once(account, [compiler, "-std=c++17", "-g", "-c", own(account, "heavy.cpp"), "-o", subject])
    copy = folded(account, os.path.realpath(found))
    words = [copy, "-nx", "-batch", "-ex", "info functions", "-ex", "info types", subject]
    yield Trial("gdb", "gdb", lambda _: words, options=["--files", copy])


# The functions that make trials, and the words that select them.
MAKERS = [
    (compilers, {"g++", "clang++"}),
    (interpreters, {"node", "python3", "java"}),
    (debugger, {"gdb"}),
    (databases.postgres, {"pgbench", "disturbed"}),
    (databases.mariadb, {"mariadb"}),
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
