"""What a server must be like when nobody uses it any more: as it was before."""

import os
import re
from dataclasses import dataclass

from . import processes

START = re.compile(r"session start id=(\w+) .* client_pid=(\d+) worker=(\d+)")
END = re.compile(r'session end id=(\w+) .* calls=(\d+) .* reason="(.*)"')
GOODBYE = "the client has finished"
DESCRIPTORS_PER_WORKER = 3
CRASH = re.compile(r"signal \d+|AddressSanitizer|ThreadSanitizer|runtime error|terminate called")


@dataclass(frozen=True)
class Sessions:
    """What the server's log says about its sessions. One has ended when its worker's process has."""
    started: dict   # id: pid of the worker
    ended: dict     # id: reason
    executed: dict  # pid of the program's process: of its last session, how many calls were executed, and whether it said goodbye

    @classmethod
    def of(cls, server):
        log = server.log_text()
        starts, ends = list(START.finditer(log)), list(END.finditer(log))
        calls = {m.group(1): (int(m.group(2)), m.group(3) == GOODBYE) for m in ends}
        return cls({m.group(1): int(m.group(3)) for m in starts}, {m.group(1): m.group(3) for m in ends},
                   {int(m.group(2)): calls[m.group(1)] for m in starts if m.group(1) in calls})

    def under_way(self):
        return sorted(set(self.started) - set(self.ended))


def descriptors(pid):
    """What the process has open, by descriptor. Descriptors that close meanwhile are left out."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            pass
    return found


def holds_connection(pid):
    """True if the process has a TCP socket."""
    inodes = {target[len("socket:["):-1] for target in descriptors(pid).values() if target.startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as lines:
            if any(line.split()[9] in inodes for line in lines.readlines()[1:]):
                return True
    return False


class Rest:
    """A server at rest: its ready workers and nothing else. Taken once, compared with later.

    `workers` are kept ready. Up to `spare` more may be: while connections wait, a worker is started for each, and those that find
    nobody to serve stay for the next one (docs/known-issues.md)."""

    def __init__(self, server, workers, spare=0, seconds=20):
        self.server, self.workers, self.spare = server, workers, spare
        problem = self._settle(seconds)
        if problem:
            raise RuntimeError(f"the server does not come to rest: {problem}\n{server.log_text()}")
        self.descriptors = self._own_descriptors()

    def _own_descriptors(self):
        """How many descriptors the supervisor has beside those that lead to its workers: a socket, a pipe and shared memory each."""
        pid = self.server.process.pid
        return len(descriptors(pid)) - DESCRIPTORS_PER_WORKER * len(processes.workers(pid))

    def _difference(self):
        if self.server.process.poll() is not None:
            return f"the supervisor has ended with {self.server.process.returncode}"
        sessions = Sessions.of(self.server)
        if sessions.under_way():
            return f"sessions are left: {[(session, sessions.started[session]) for session in sessions.under_way()]}"
        found = processes.workers(self.server.process.pid)
        if not self.workers <= len(found) <= self.workers + self.spare:
            return f"{len(found)} workers instead of {self.workers}"
        try:
            busy = [worker for worker in found if holds_connection(worker)]
        except FileNotFoundError:
            return "a worker has ended meanwhile"
        if busy:
            return f"workers hold connections of nobody's: {busy}"
        return None

    def _settle(self, seconds):
        problem = None

        def is_at_rest():
            nonlocal problem
            problem = self._difference()
            return problem is None

        processes.until(is_at_rest, seconds)
        return problem

    def left_behind(self, seconds=20, crashes=()):
        """What is left or has happened that should not, in words; None if the server is as it was. `crashes`: workers that the test
        has killed itself."""
        problem = self._settle(seconds)
        if problem:
            return problem
        if not processes.until(lambda: self._own_descriptors() <= self.descriptors, seconds):
            return f"the supervisor holds {self._own_descriptors()} descriptors of its own instead of {self.descriptors}: " \
                   f"{descriptors(self.server.process.pid)}"
        sessions = Sessions.of(self.server)
        for session, reason in sessions.ended.items():
            if CRASH.search(reason) and sessions.started.get(session) not in crashes:
                return f"the worker of session {session} did not end well: {reason}"
        return None
