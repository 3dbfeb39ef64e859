"""Compares prices with programs that do exactly N and 2N of the priced thing.

Usage: compare.py PRICES_PROGRAM DIRECTORY REPETITIONS. DIRECTORY holds the compiled truth programs.
In each repetition the prices are taken first; then each program runs N and 2N in turns. The median
difference of their times is what N of them cost; the price times N is what was predicted.
"""
import json
import os
import statistics
import subprocess
import sys
import time

PAIRS = 3
LIMIT = 0.20
MIB = 1 << 20


def cases(data):
    """Name, price, units of that price in N, arguments for N and for 2N."""
    def case(name, price, units, words, n, *rest):
        return name, price, units, [[*words, str(n * k), *rest] for k in (1, 2)]

    return [
        case("anonymous fault", "anon_fault_ns", 49152, ["faults", "anon"], 49152),
        case("anonymous fault, few", "anon_fault_ns", 12000, ["faults", "anon"], 12000),
        case("anon + write after fork", "anon_fault_ns cow_fault_ns", 20000, ["faults", "cow"], 20000),
        case("huge fault", "huge_fault_ns", 100, ["faults", "huge"], 100),
        case("file fault", "file_fault_ns", 30000, ["faults", "file"], 30000, data),
        case("pipe copy, 32 KiB", "pipe_copy_kib_ns", 1024 * 1024, ["calls", "pipe"], 1024, "32768"),
        case("pipe copy, 48 KiB", "pipe_copy_kib_ns", 1024 * 1024, ["calls", "pipe"], 1024, "49152"),
        case("file copy, 32 KiB", "file_copy_kib_ns", 1024 * 1024, ["calls", "file"], 1024, "32768", data),
        case("file copy, 256 KiB", "file_copy_kib_ns", 1024 * 1024, ["calls", "file"], 1024, "262144", data),
        case("mmap + munmap", "map_unmap_ns", 60000, ["calls", "map"], 60000),
        case("system call", "syscall_ns", 1000000, ["calls", "sys"], 1000000),
        case("hand-over, two CPUs", "wakeup_cross_ns", 10000, ["calls", "cross"], 10000),
        case("hand-over, one CPU", "wakeup_same_ns", 30000, ["calls", "same"], 30000),
    ]


def run(directory, arguments):
    """CPU time of one program in ns; wall time where it hands over, for its price is of that."""
    command = [os.path.join(directory, arguments[0]), *arguments[1:]]
    start = time.perf_counter_ns()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter_ns() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    return wall if arguments[1] in ("cross", "same") else (usage.ru_utime + usage.ru_stime) * 1e9


def difference(directory, commands):
    """Median difference between 2N and N, both orders used in turn."""
    differences = []
    for pair in range(PAIRS):
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        took = {k: run(directory, commands[k]) for k in order}
        differences.append(took[1] - took[0])
    return statistics.median(differences)


def main():
    program, directory, repetitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data = os.path.join(directory, "data")
    with open(data, "wb") as file:
        for _ in range(160 * 16):
            file.write(os.urandom(64 << 10))
    table = cases(data)
    errors = {case[0]: [] for case in table}
    last = {}
    for _ in range(repetitions):
        text = subprocess.run([program, os.path.join(directory, "prices.json")], check=True,
                              stdout=subprocess.PIPE).stdout
        prices = json.loads(text)
        for name, price, units, commands in table:
            values = [prices[key].get("known", prices[key]) for key in price.split()]
            missing = [value for value in values if "median" not in value]
            if missing:
                last[name] = f"missing: {missing[0]}"
                continue
            if commands[0][0] == "faults":
                # The host must back as much as both runs use, as it did when the price was taken.
                run(directory, ["faults", "anon", str(200 * MIB // 2048)])
            predicted = sum(value["median"] for value in values)
            measured = difference(directory, commands) / units
            errors[name].append(predicted / measured - 1)
            last[name] = f"{predicted:10.1f} {measured:10.1f}"
    return show(table, errors, last)


def show(table, errors, last):
    """Prints the table; 0 when most repetitions of each case are within the limit."""
    print(f"{'case':26} {'predicted':>10} {'measured':>10}   error of each repetition")
    held = 0
    for name, *_ in table:
        within = sum(abs(e) <= LIMIT for e in errors[name])
        good = bool(errors[name]) and 2 * within > len(errors[name])
        held += good
        each = " ".join(f"{e:+.0%}" for e in errors[name])
        print(f"{name:26} {last[name]}   {each}   {'held' if good else 'NOT HELD'}")
    print(f"{held} of {len(table)} within {LIMIT:.0%} in most repetitions "
          "(ns per unit of the last repetition)")
    return 0 if held == len(table) else 1


if __name__ == "__main__":
    sys.exit(main())
