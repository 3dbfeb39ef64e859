"""A git history for `git fast-import`: N commits that change lines of 200 source-like files."""

import random
import sys

source = random.Random(1)
out = sys.stdout
commits = int(sys.argv[1])
files = [
    [f"static int value_{f}_{line} = {source.randrange(10**6)};\n" for line in range(300)]
    for f in range(200)
]


def data(text):
    out.write(f"data {len(text)}\n{text}\n")


for number in range(commits):
    out.write("commit refs/heads/main\n")
    out.write(f"committer A Writer <writer@example.org> {1500000000 + number * 3600} +0000\n")
    data(f"Change {number}\n\nA longer explanation of change {number}.\n")
    changed = range(200) if number == 0 else source.sample(range(200), 3)
    for index in changed:
        lines = files[index]
        for _ in range(5):
            lines[source.randrange(len(lines))] = f"static int changed_{number} = {number};\n"
        out.write(f"M 100644 inline src/file{index:03d}.c\n")
        data("".join(lines))
