"""A WSGI application with a dictionary in memory, for gunicorn.

`gunicorn -c gunicorn.conf.py -b 127.0.0.1:PORT app:app`, in this directory. Each request looks up 64 of the
ENTRIES (an environment variable; 300000, some 150 MiB a worker) by chance and answers with JSON.
"""

import json
import os
import random

LOOKUPS = 64
ENTRIES = int(os.environ.get("ENTRIES", "300000"))

cache = {
    f"item:{i}": {"id": i, "name": f"name of item {i}", "price": i * 37 % 1000, "tag": i % 11}
    for i in range(ENTRIES)
}


def app(_environ, start_response):
    """Answers any request."""
    total, last = 0, None
    for _ in range(LOOKUPS):
        last = cache[f"item:{random.randrange(ENTRIES)}"]
        total += last["price"] + last["tag"]
    body = json.dumps({"sum": total, "last": last}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
