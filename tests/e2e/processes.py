# SPDX-License-Identifier: Apache-2.0
"""Waiting with a deadline, and looking at processes. CXXRUN_TEST_SLOW multiplies every deadline."""
import ctypes
import os
import select
import signal
import time

SLOW = float(os.environ.get("CXXRUN_TEST_SLOW", "1"))


def limit(seconds):
    """A deadline of so many seconds from now, longer in slow builds."""
    return time.monotonic() + seconds * SLOW


class Folder:
    """Tells when something appears in a directory (inotify)."""
    _CREATE_OR_MOVED_TO_OR_CLOSED = 0x100 | 0x80 | 0x8

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(path), self._CREATE_OR_MOVED_TO_OR_CLOSED) < 0:
            raise OSError(ctypes.get_errno(), f"inotify of {path}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._fd)

    def wait(self, seconds):
        """Until something has happened since the last call, or so many seconds have passed."""
        if select.select([self._fd], [], [], max(0, seconds))[0]:
            os.read(self._fd, 65536)


def wait_for_end(pid, seconds=20):
    """Waits until a process has ended; it may be a zombie then."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([fd], [], [], seconds * SLOW)[0]:
            raise AssertionError(f"not within {seconds * SLOW:g} s: the end of {describe(pid)}")
    finally:
        os.close(fd)


def wait_until(what, condition, seconds=20):
    """Waits until `condition()` is true and returns its value. Fails with `what`. For what no event tells: the state of another
    process, say. For files: Folder; for the end of a process: wait_for_end()."""
    end = limit(seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds * SLOW:g} s: {what}")
        time.sleep(0.003)


def shell_code(returncode):
    return 128 - returncode if returncode < 0 else returncode


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def cmdline(pid):
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def comm(pid):
    """The name that ps, pkill and killall go by."""
    return _read(pid, "comm").decode(errors="replace").strip()


def stat(pid):
    """state, ppid, pgid, sid of a process; None when it is gone."""
    text = _read(pid, "stat").decode(errors="replace")
    if not text:
        return None
    fields = text[text.rindex(")") + 2:].split()
    return fields[0], int(fields[1]), int(fields[2]), int(fields[3])


def alive(pid):
    found = stat(pid)
    return found is not None and found[0] not in "ZX"


def children(pid):
    return [p for p in pids() if (stat(p) or (0, 0))[1] == pid]


def descendants(pid):
    found, todo = [], [pid]
    while todo:
        for child in children(todo.pop()):
            found.append(child)
            todo.append(child)
    return found


def memory_kb(pid, field="Rss"):
    for line in _read(pid, "smaps_rollup").decode().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def describe(pid):
    found = stat(pid)
    return f"pid {pid} state {found[0]} parent {found[1]} session {found[3]}: {cmdline(pid) or '(no command line)'}" \
        if found else f"pid {pid} (gone)"


def kill(pid, signo=signal.SIGKILL):
    try:
        os.kill(pid, signo)
    except ProcessLookupError:
        pass
