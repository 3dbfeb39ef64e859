"""Rows of unequal length in one padded table."""
import numpy
draw = numpy.random.default_rng(1)
rows, longest = 3_000, 16_384
lengths = draw.integers(50, 800, rows)
table = numpy.empty((rows, longest))
for row, length in enumerate(lengths):
    table[row, :length] = draw.random(length)
print(sum(float(table[row, :length].mean()) for row, length in enumerate(lengths)))
