"""Rust sources of the workspace as the checks see them."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tracked(*patterns):
    """Paths known to git or new and not ignored, relative to the root, that exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    return sorted({Path(p) for p in listed.split("\0") if p and (ROOT / p).is_file()})


def code(path, tests=False):
    """Numbered lines without `//` comments; without the test module at the end unless `tests`."""
    lines = []
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(text, 1):
        if not tests and line == "#[cfg(test)]" and re.match(r"(#\[.*\]|mod \w+ \{)", text[number]):
            break
        lines.append((number, re.sub(r"(^|[^:\"])//.*$", r"\1", line)))
    return lines


def finish(name, found):
    """Prints what was found; the exit status."""
    for text in found:
        print(f"{name}: {text}")
    print(f"{name}: {'ok' if not found else f'{len(found)} found'}")
    return 1 if found else 0
