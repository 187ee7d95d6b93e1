"""Processes as the tests see them: who belongs to a state folder, what they use, how they end."""
import os
import signal
import time


def start_of(pid):
    """Start time in clock ticks, or None: a pid alone says little."""
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def cmdline(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def parent_of(pid):
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def mentioning(text):
    """{pid: command line} of every live process whose command line has the text."""
    return {p: c for p in pids() if p != os.getpid() and text in (c := cmdline(p)) and start_of(p)}


def descendants(roots):
    table = {p: parent_of(p) for p in pids()}
    found, grew = set(roots), True
    while grew:
        more = {p for p, parent in table.items() if parent in found} - found
        found |= more
        grew = bool(more)
    return found


def rss_bytes(pid):
    """Resident memory; 0 when the process is gone."""
    try:
        with open("/proc/%d/statm" % pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def private_bytes(pid):
    """Memory that is the process's own (Private_Clean + Private_Dirty)."""
    total = 0
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            for line in f:
                if line.startswith(("Private_Clean:", "Private_Dirty:")):
                    total += int(line.split()[1]) * 1024
    except OSError:
        pass
    return total


def wait_gone(found, seconds):
    """{pid: start} -> those still alive after the wait."""
    end = time.monotonic() + seconds
    while True:
        left = {p: s for p, s in found.items() if start_of(p) == s}
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def kill(pid, start, sig=signal.SIGKILL):
    """Only when it is still the process that we mean."""
    if start is None or start_of(pid) != start:
        return False
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_of(pid) != start:
            return False
        signal.pidfd_send_signal(fd, sig)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
