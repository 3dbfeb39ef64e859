"""Concurrent runs of programs on one CPU, without pagewise."""

import math
import os
import statistics
import time

import harness


def started(command, cpu, inputs, env):
    """The process ID of a new run in a new session."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    os.chdir(inputs)
    nowhere = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    try:
        os.execvpe(command[0], command, env)
    finally:
        os._exit(127)


def runs(command, cpu, inputs, environments, peak):
    """Wall and CPU seconds and the peak in bytes of runs at once, one for each environment."""
    harness.back_memory(len(environments) * peak + (256 << 20))
    begun = time.perf_counter()
    order = [started(command, cpu, inputs, env) for env in environments]
    seen = {}
    for _ in order:
        pid, status, used = os.wait4(-1, 0)
        if status:
            raise harness.Unfit(f"ended with status {status}")
        seen[pid] = (time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)
    return [seen[pid] for pid in order]


def deviation(groups):
    """Of the logarithm of the ratio of two runs of a group, in percent."""
    variances = [statistics.variance(map(math.log, group)) for group in groups]
    return 100 * math.sqrt(2 * statistics.mean(variances))
