"""The servers among the programs that `text/gain` tries: each as a folded copy, with its clients beside it.

A run starts the server, lets the clients read, and ends the server: `serve-postgres` and `serve-mariadb`.
"""

import glob
import math
import os
import shutil
from pathlib import Path

import harness
from trial import Trial, folded, once, own, which

SCALE = 10
# Numbers of clients in addition to the shares of the CPUs.
CLIENTS = [8, 16, 32]


class Server:
    """A server with its data: the script that runs it with clients, and the name of its rows."""

    def __init__(self, account, program, script, data, name):
        self.copy = folded(account, program)
        self.script, self.data, self.name = own(account, script), str(data), name

    def with_clients(self, count, transactions):
        """The command of a run with clients that make this many transactions in all."""
        return [self.script, self.copy, self.data, str(count), str(transactions)]

    def trial(self, count, word, least):
        """A trial with this many clients."""
        name = f"{self.name}, {count} client{'s' * (count > 1)}"
        return Trial(name, word, lambda n: self.with_clients(count, n), least, ["--files", self.copy])


def clients(cores):
    """Numbers of clients: one, shares of the CPUs, and beyond."""
    return sorted({1, math.ceil(cores / 4), math.ceil(cores / 2), cores, *CLIENTS})


def postgres(account):
    """`pgbench -S`, and once more beside a load."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not programs or not which("pgbench"):
        yield Trial("pgbench -S", "pgbench")
        return
    data = account.home / "cluster"
    binaries = Path(programs[-1]).parent
    account.env["PATH"] = f"{binaries}:{account.env['PATH']}"
    once(account, [str(binaries / "initdb"), "-N", "-A", "trust", "-D", str(data)])
    server = Server(account, programs[-1], "serve-postgres", data, "pgbench -S")
    once(account, [*server.with_clients(1, 1), "-q", "-i", "-s", str(SCALE)])
    cores = len(os.sched_getaffinity(0))
    for count in clients(cores):
        yield server.trial(count, "pgbench", 3000)
    beside = server.trial(cores, "disturbed", 3000)
    beside.name, beside.beside = f"{beside.name}, beside a busy shell loop", True
    yield beside


def mariadb(account):
    """The reading transactions of sysbench."""
    program = shutil.which("mariadbd", path=f"{harness.PATH}:/usr/sbin")
    if not program or not which("sysbench") or not which("mariadb-install-db"):
        yield Trial("mariadb", "mariadb")
        return
    data = account.home / "mariadb"
    once(account, [
        "mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ])
    server = Server(account, os.path.realpath(program), "serve-mariadb", data, "mariadb, sysbench oltp_read_only")
    once(account, [*server.with_clients(1, 1), "prepare"])
    for count in clients(len(os.sched_getaffinity(0))):
        yield server.trial(count, "mariadb", 200)
