"""The services of services.tsv, their data, and each of them alone, without pagewise."""

import contextlib
import glob
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parents[1])]
import harness  # noqa: E402

PATH = ":".join([*glob.glob("/usr/lib/postgresql/*/bin"), harness.PATH, "/usr/sbin"])
MAKING = 600


def make(inputs, account):
    """Makes the data in `inputs`, as the account that will use it."""
    inputs.mkdir(parents=True, exist_ok=True)
    source = inputs / "source"
    shutil.copytree(HERE / "servers", source / "servers", dirs_exist_ok=True)
    shutil.copy(HERE / "inputs.sh", source)
    if account.prefix:
        os.chown(inputs, account.uid(), account.uid())
    ran = harness.run([*account.prefix, str(source / "inputs.sh"), str(inputs)], MAKING,
                      env={**account.env, "PATH": PATH}, cwd=inputs)
    if ran.status != 0:
        raise harness.Unfit(f"inputs.sh: status {ran.status}: {ran.last_error()}")
    return [line for line in ran.out.splitlines() if line.startswith("SKIP")]


def rows(inputs):
    """Rows of services.tsv: name, options of `pagewise tune`; None for the options where a program is missing."""
    for line in (HERE / "services.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, needs, options = line.split("\t")
            is_there = all(shutil.which(need, path=PATH) for need in needs.split(","))
            yield name, shlex.split(options.replace("{inputs}", str(inputs))) if is_there else None


# How each generator of services.tsv counts, and how it prints failed requests.
COUNTS = (r"actually processed: (\d+)/", r"total number of events: +(\d+)", r"(\d+) requests in ", r'"requests": (\d+)')
FAILED = r"failed transactions: [1-9]|ignored errors: +[1-9]|Non-2xx|Socket errors|\"errors\": [1-9]"
OF_REDIS = 60_000  # what each test of redis-benchmark in services.tsv does


def requests(printed):
    """Requests of one run of the load."""
    if re.search(FAILED, printed):
        raise harness.Unfit(f"failed requests: {printed[-300:]}")
    for pattern in COUNTS:
        if found := re.search(pattern, printed):
            return int(found[1])
    tests = len(re.findall(r'^"(?!test")', printed, re.MULTILINE))
    if tests == 0:
        raise harness.Unfit(f"no number of requests: {printed[-300:]}")
    return tests * OF_REDIS


class Service:
    """One start of a service. `options` are those of tune; `around` are words before the server's command."""

    def __init__(self, options, account, place, around=()):
        self.options = dict(zip(options[::2], options[1::2]))
        self.account, self.dir = account, place
        self.env = {**account.env, "PATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        place.mkdir()
        if account.prefix:
            os.chown(place, account.uid(), account.uid())
        self.shell("--prepare")
        words = shlex.split(self.fill(self.options["--serve"]))
        with open(place.with_suffix(".log"), "wb") as log:
            self.process = subprocess.Popen([*account.prefix, *around, *words], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=self.env, cwd=place, start_new_session=True)

    def fill(self, text):
        """A command with its placeholders filled in."""
        return text.replace("{port}", str(self.port)).replace("{dir}", str(self.dir))

    def shell(self, option, limit=60):
        """Runs the shell command of an option, if given. Returns its output."""
        if option not in self.options:
            return ""
        return self.command(self.options[option], limit, option)

    def command(self, text, limit, what):
        """Runs a shell command that has to succeed. Returns its output."""
        ran = harness.run([*self.account.prefix, "sh", "-c", self.fill(text)], limit, env=self.env, cwd=self.dir)
        if ran.late or ran.status != 0:
            raise harness.Unfit(f"{what}: status {ran.status}{' (too late)' * ran.late}: {ran.last_error()}")
        return ran.out

    def is_ready(self):
        """Asks once."""
        kind, _, rest = self.fill(self.options["--ready"]).partition(":")
        try:
            if kind == "http":
                with urllib.request.urlopen(f"http:{rest}", timeout=1):
                    return True
            if kind == "tcp":
                with socket.create_connection(("127.0.0.1", int(rest)), timeout=1):
                    return True
            self.command(rest, 5, "--ready")
            return True
        except (OSError, urllib.error.URLError, harness.Unfit):
            return False

    def await_ready(self, limit=30):
        """Waits until it is ready."""
        end = time.monotonic() + limit
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise harness.Unfit(f"the server is not ready (status {self.process.poll()})")
            time.sleep(0.02)

    def load(self, cpus=None):
        """Runs the load once, on these CPUs; requests answered. Failed ones raise `Unfit`."""
        on = f"taskset -c {','.join(map(str, cpus))} " if cpus else ""
        return requests(self.command(on + self.options["--load"], 60, "--load"))

    def pids(self):
        """Its processes, with all that descend from it."""
        parents = {int(pid): parent for pid in filter(str.isdigit, os.listdir("/proc")) if (parent := parent_of(pid))}
        found = [self.process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return [pid for pid in found if pid in parents]

    def pin(self, cpus):
        """Confines all of its threads to these CPUs."""
        for pid in self.pids():
            for thread in Path(f"/proc/{pid}/task").glob("*"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), cpus)

    def cpu(self):
        """CPU seconds of its living processes and of those that they have waited for."""
        return sum(cpu(pid) for pid in self.pids())

    def memory(self):
        """Its proportional set size in bytes."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
                total += int(re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)[1]) << 10
        return total

    def end(self, limit=20):
        """Ends it in its own way. Returns its status."""
        if "--stop" in self.options:
            self.shell("--stop")
        else:
            self.process.terminate()
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            harness.end_group(self.process)
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()
        shutil.rmtree(self.dir, ignore_errors=True)


def stat(pid):
    """Fields of /proc/PID/stat after the name, or none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return None


def parent_of(pid):
    """Parent of a process."""
    fields = stat(pid)
    return int(fields[1]) if fields else None


def cpu(pid):
    """CPU seconds of a process and of those that it has waited for."""
    fields = stat(pid)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") if fields else 0.0
