#!/usr/bin/env python3
"""Load for memcached: `memload.py PORT REQUESTS [OPTIONS]`, with many requests under way on one connection.

Each batch is sent at once; a request's latency counts from then to its own answer. It prints one line of JSON:
requests (answers), errors (answers such as SERVER_ERROR, and requests without one), misses, seconds, rate,
p50_us, p99_us. Read it with `--metric json:requests=requests,errors=errors,p50_us=p50_us,p99_us=p99_us`.
Status 1 if the connection was lost or after `--seconds`.
"""

import argparse
import json
import random
import socket
import sys
import time


def command(key, size, is_set):
    """One request. Values hold no answer's word."""
    if is_set:
        return b"set key:%d 0 0 %d\r\n%s\r\n" % (key, size, b"x" * size)
    return b"get key:%d\r\n" % key


def batches(arguments):
    """What is sent, made before the clock starts: any key as often as another, at most once a batch."""
    chance = random.Random(arguments.seed)
    left = arguments.requests
    while left > 0:
        keys = chance.sample(range(arguments.keys), min(arguments.pipeline, arguments.keys, left))
        left -= len(keys)
        yield [command(key, arguments.size, chance.random() < arguments.sets) for key in keys]


class Answers:
    """The answers on a connection, counted by their last lines."""

    def __init__(self, connection):
        self.connection = connection
        self.rest = b""
        self.errors = self.misses = 0

    def take(self):
        """Number of answers that the next bytes complete."""
        read = self.connection.recv(1 << 18)
        if not read:
            raise ConnectionResetError("memcached closed the connection")
        *lines, self.rest = (self.rest + read).split(b"\r\n")
        wrong = sum(line.startswith((b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR")) for line in lines)
        ends, stored = lines.count(b"END"), lines.count(b"STORED")
        self.errors += wrong
        self.misses += ends - sum(line.startswith(b"VALUE ") for line in lines)
        return ends + stored + wrong


def exchange(answers, commands, latencies):
    """Sends a batch and waits for all of its answers."""
    begun = time.perf_counter()
    answers.connection.sendall(b"".join(commands))
    left = len(commands)
    while left > 0:
        count = answers.take()
        latencies.extend([time.perf_counter() - begun] * count)
        left -= count


def fill(answers, arguments):
    """Sets each key once."""
    for first in range(0, arguments.keys, arguments.pipeline):
        last = min(first + arguments.pipeline, arguments.keys)
        exchange(answers, [command(key, arguments.size, True) for key in range(first, last)], [])


def shoot(answers, made, arguments, latencies):
    """The load itself."""
    end = time.perf_counter() + arguments.seconds
    for batch in made:
        if time.perf_counter() > end:
            raise TimeoutError(f"{len(latencies)} of {arguments.requests} requests in {arguments.seconds} s")
        exchange(answers, batch, latencies)


def report(answers, arguments, latencies, took):
    """The line that is printed."""
    ordered = sorted(latencies)
    at = lambda share: round(ordered[int(share * (len(ordered) - 1))] * 1e6, 1) if ordered else 0  # noqa: E731
    unanswered = arguments.requests - len(ordered)
    print(json.dumps({
        "requests": len(ordered), "errors": answers.errors + unanswered, "misses": answers.misses,
        "seconds": round(took, 6), "rate": round(len(ordered) / took, 1), "p50_us": at(0.5), "p99_us": at(0.99),
    }))


def main():
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("requests", type=int)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=256, help="bytes of a value")
    parser.add_argument("--sets", type=float, default=0.1, help="share of requests that set")
    parser.add_argument("--pipeline", type=int, default=64, help="requests under way")
    parser.add_argument("--fill", action="store_true", help="set each key once, before the clock starts")
    parser.add_argument("--seconds", type=float, default=60, help="give up after so long")
    parser.add_argument("--seed", type=int, help="for the same requests each time")
    arguments = parser.parse_args()
    with socket.create_connection(("127.0.0.1", arguments.port), timeout=arguments.seconds) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers, latencies = Answers(connection), []
        if arguments.fill:
            fill(answers, arguments)
        made = list(batches(arguments))
        begun = time.perf_counter()
        failure = None
        try:
            shoot(answers, made, arguments, latencies)
        except OSError as error:  # a timeout too
            failure = error
        if arguments.requests:
            report(answers, arguments, latencies, time.perf_counter() - begun)
    if failure:
        sys.exit(f"memload.py: {failure}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"memload.py: {error}")
