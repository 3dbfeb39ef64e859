"""Builds a large dictionary of small tuples and sums over it in another order."""

import sys

count = int(sys.argv[1])
table = {f"key{(i * 7919) % count:07d}": (i, float(i)) for i in range(count)}
total = 0
for i in range(0, count, 3):
    total += table[f"key{i:07d}"][0]
print(len(table), total)
