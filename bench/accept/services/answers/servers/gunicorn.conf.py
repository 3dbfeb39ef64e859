"""Settings of gunicorn for app.py: it listens when each worker has its data, and ends after 15 minutes."""

import signal

SECONDS = 15 * 60
workers = 1
worker_class = "gthread"
threads = 4
keepalive = 60
graceful_timeout = 2
loglevel = "warning"
# Workers share what was made before they were forked; without collections it stays shared.
preload_app = True


def end(_signal, _frame):
    """What the master does on Ctrl-C: workers end, then it."""
    raise KeyboardInterrupt


def when_ready(_server):
    """The master listens."""
    signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    print("ready", flush=True)
