"""What the scripts on page faults share: the programs that are recorded, and what `pagewise
faults` says of them.

Nothing here knows how pagewise works: programs are started, their output is read.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import harness

# Seconds that one recorded program may take.
LIMIT = 300


class Account(harness.Account):
    """An account whose programs are recorded."""

    def __init__(self, place, pagewise, has_rights=False):
        super().__init__(place, pagewise, has_rights)
        self.env["TMPDIR"] = str(self.home)

    def build(self, source, *options):
        """Compiles a C program that this account can execute."""
        return harness.compile_c(source, self.place / Path(source).stem, *options)

    def lend(self, source):
        """A copy of a file of ours that this account can read."""
        copy = self.place / Path(source).name
        shutil.copy(source, copy)
        copy.chmod(0o644)
        return copy

    def plain(self, argv):
        """The command line of a program as it is."""
        return [*self.prefix, *map(str, argv)]

    def faults(self, argv, *options):
        """The same below `pagewise faults`."""
        return [*self.prefix, self.pagewise, "faults", *map(str, options), "--", *map(str, argv)]

    def run(self, argv, limit=LIMIT, **options):
        """Runs a command line of this account's to its end."""
        return harness.run(argv, limit, **{**self.options, **options})

    def recorded(self, argv, *options):
        """How a recording of a program ended; `None` when it failed."""
        ran = self.run(self.faults(argv, *options))
        if ran.status == 3:
            raise harness.Unfit(ran.last_error())
        return ran if ran.status == 0 else None

    def report(self, argv, *options):
        """What was recorded of a program; `None` when it failed."""
        ran = self.recorded(argv, "--json", *options)
        return harness.saved(ran)["faults"] if ran else None

    def faults_of(self, argv, *options):
        """Every fault of a program, in order, as the JSON lines tell it; `None` when it failed."""
        ran = self.recorded(argv, "--format", "json", *options)
        return lines(ran.out) if ran else None


def lines(text):
    """The documents of JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]


def text_file(path, rows=120_000):
    """Writes lines of words that follow no order, the same each time."""
    state = 88172645463325252
    with open(path, "w", encoding="ascii") as file:
        for row in range(rows):
            state = (state ^ (state << 13)) & (2**64 - 1)
            state ^= state >> 7
            state = (state ^ (state << 17)) & (2**64 - 1)
            file.write(f"{state:020d} row {row} {state % 97} of {state % 1009}\n")
    os.chmod(path, 0o644)
    return path


def repository(account):
    """A git repository with two commits; `None` without git."""
    if shutil.which("git", path=harness.PATH) is None:
        return None
    make = (
        "git init -q history && cd history && git config user.name accept"
        " && git config user.email accept@localhost"
        " && for i in $(seq 300); do seq $i $((i + 60)) >file$i; done"
        " && git add . && git commit -qm first && seq 5000 >file7 && git commit -qam second"
    )
    ran = account.run(account.plain(["sh", "-c", make]), 60)
    return account.home / "history" if ran.status == 0 else None


class Programs:
    """Known programs found by PATH, each with a short thing to do; those missing are counted."""

    def __init__(self, account):
        self.account = account
        self.missing = []
        self.all = []
        self.text = text_file(account.place / "text")

    def add(self, name, *words):
        """A program under a name of ours; its first word is looked for."""
        found = shutil.which(str(words[0]), path=harness.PATH)
        if found is None:
            self.missing.append(name)
        else:
            self.all.append((name, [found, *map(str, words[1:])]))

    def add_each(self, *rows):
        """Programs under their own names."""
        for words in rows:
            self.add(words[0], *words)

    def add_history(self):
        """git, in a repository of its own."""
        place = repository(self.account)
        if place is None:
            self.missing.append("git")
            return
        for word in (["log", "-p"], ["status"], ["grep", "-c", "11"]):
            self.add(f"git {word[0]}", "git", "-C", place, *word)

    def add_go(self):
        """A Go program of ours."""
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
        if go is None:
            self.missing.append("go program")
            return
        to = self.account.place / "walk-go"
        built = harness.run(
            [go, "build", "-o", str(to), str(harness.PROGRAMS / "table_walk.go")], 240,
            env={**os.environ, "GOCACHE": str(self.account.place / "go-cache"), "GO111MODULE": "off"},
        )
        if built.status != 0:
            print(f"go build: {built.last_error()}", file=sys.stderr)
            self.missing.append("go program")
            return
        self.all.append(("go program", [str(to), "16", "100000"]))

    def add_compilers(self):
        """g++ with its chain of programs."""
        source = self.account.place / "words.cpp"
        source.write_text(
            "#include <map>\n#include <string>\n#include <vector>\n"
            "int main() { std::map<std::string, std::vector<int>> m; m[\"a\"].push_back(1);"
            " return m.size() - 1; }\n"
        )
        self.add("g++", "g++", "-c", source, "-o", self.account.home / "words.o")

    def add_runtimes(self):
        """Programs with a compiler or collector of their own."""
        self.add("python3", "python3", "-c", "x = [str(i) * 3 for i in range(200000)]")
        self.add("perl", "perl", "-e", "my %h; $h{$_} = \"v$_\" for 1..150000")
        self.add(
            "node", "node", "-e",
            "let s = 0; for (let i = 0; i < 3e6; i++) s += Math.sqrt(i) % 7; console.log(s)",
        )
        self.add("java", "java", "-Xmx128m", "-Xshare:auto", "-version")

    def add_tools(self):
        """Filters and packers."""
        text = self.text
        self.add_each(
            ["sort", text], ["sha256sum", text], ["wc", text], ["tac", text], ["cut", "-c1-9", text],
            ["ls", "-l", "/usr/bin"], ["xz", "-1", "-c", text], ["gzip", "-c", text],
            ["bzip2", "-c", text], ["zstd", "-q", "-c", text], ["openssl", "dgst", text],
            ["tar", "-cf", "-", text],
        )
        self.add("awk", "awk", "{ n[$1] = $3 } END { print length(n) }", text)
        self.add("sqlite3", "sqlite3", ":memory:",
                 "with recursive n(x) as (select 1 union all select x + 1 from n limit 100000)"
                 " select count(distinct x * 7 % 1013) from n;")
        self.add("bc", "sh", "-c", "echo '2^40000' | bc")
        self.add("vim", "vim", "-es", "-u", "NONE", text, "+q!")

    def add_small(self):
        """Programs that do next to nothing."""
        text = self.text
        self.add_each(
            ["true"], ["date"], ["id"], ["uname", "-a"], ["echo", "word"], ["env"], ["printf", "%d", "7"],
            ["seq", "20000"], ["expr", "7", "*", "8"], ["basename", "/a/b"], ["cat", text],
            ["head", "-n5", text], ["tail", "-n5", text], ["nl", text], ["od", "-An", "-N4000", text],
            ["md5sum", text], ["cksum", text], ["base64", text], ["fold", text], ["grep", "-c", "97", text],
            ["sed", "-n", "$p", text], ["tr", "a", "b"], ["find", "/usr/share/doc", "-maxdepth", "1"],
            ["df"], ["du", "/usr/share/doc/base-files"], ["stat", text], ["sh", "-c", ":"],
            ["bash", "-c", "true"], ["file", text], ["make", "--version"], ["ps", "aux"],
        )

    def add_large(self):
        """All but those that do next to nothing."""
        self.add_tools()
        self.add_history()
        self.add_compilers()
        self.add_go()
        self.add_runtimes()


def say_missing(result, missing):
    """Names the programs that are not here."""
    if missing:
        result.say(f"SKIP {len(missing)} not here: {', '.join(missing)}")
