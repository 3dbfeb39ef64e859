"""Groups and joins of two frames of random numbers."""
import numpy
import pandas

draw = numpy.random.default_rng(1)
rows = 8_000_000
left = pandas.DataFrame({"key": draw.integers(0, 200_000, rows), "value": draw.random(rows)})
right = left.groupby("key").agg(["sum", "mean", "count"]).reset_index()
right.columns = ["key", "sum", "mean", "count"]
joined = left.merge(right, on="key").sort_values("value")
print(len(joined), round(float(joined["mean"].sum()), 3))
