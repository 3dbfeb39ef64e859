"""The thirty programs of programs.tsv and the environment in which they run."""

import os
import shlex
from pathlib import Path

HERE = Path(__file__).resolve().parent
INPUTS = HERE.parents[3] / "target" / "accept" / "inputs"
SAVED = HERE.parents[3] / "target" / "accept" / "tune-answers"


def rows(table=HERE / "programs.tsv"):
    """Rows of a list of programs: name, needed program, argv, options of tune."""
    found = []
    for line in table.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, needs, command, options = line.split("\t")
            found.append((name, needs, shlex.split(command), shlex.split(options)))
    return found


def environment(pagewise):
    """The distribution's programs before others of the same name; pagewise by name."""
    path = f"{Path(pagewise).parent}:/usr/bin:/bin:{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "LC_ALL": "C", "GIT_PAGER": "cat"}
