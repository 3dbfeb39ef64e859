"""A program that `text/gain` tries, and its amount of work.

Most get enough work for a run of SECONDS on this machine. Two runs with different amounts give the time of a
start and of a piece of work. The amount is part of the command that the result names.

Units: seconds.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import harness

HERE = Path(__file__).resolve().parent
TUNE = HERE.parents[1] / "tune" / "answers"
SECONDS = 1.5
# Seconds of a load beside a trial: longer than any trial.
LIMIT = 600


class Trial:
    """A program to try: the name of its row, the word by which --only names it, options of bench text.

    `command(amount)` returns its command for this amount of work, a multiple of `least`, or for all work
    without `least`. A missing program has a reason `why` instead. One that runs `beside` a load has
    a busy shell loop on one of the CPUs from before its first run to after its last."""

    def __init__(self, name, word, command=None, least=None, options=(), why="not installed", beside=False):
        self.name, self.word, self.command, self.least = name, word, command, least
        self.options, self.why, self.beside = list(options), why, beside

    def sized(self, account):
        """The command of a run that takes about SECONDS."""
        if self.least is None:
            return self.command(None)
        once(account, self.command(self.least))
        small, large = (once(account, self.command(times * self.least)) for times in (1, 3))
        # Even if the clock says so, a short run is not all start.
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
    """A program of the distribution. `None` if it is not installed."""
    return shutil.which(name, path=harness.PATH)


def own(account, name):
    """A copy of a file of the repository that the account can read."""
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
