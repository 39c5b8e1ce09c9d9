"""Many runs of programs with seeded faults, several at a time, against one server, which must be at rest after each round."""

import collections
import concurrent.futures
import random
import time
from dataclasses import dataclass, field

import harness

from . import plan as plans
from . import runs
from .checks import Rest, Sessions
from .expectation import Ending, Expectation, ending_of

ROUND_RUNS = 100   # after so many runs the server has to come to rest
READY = 2          # workers that it keeps ready
REST_SECONDS = 50  # the goodbye of a program may be lost with its connection: then its session stays for the grace time


@dataclass(frozen=True)
class Case:
    """A program with one of its lists of arguments, and what it sends and receives where nothing goes wrong."""
    program: harness.Program
    arguments: tuple
    totals: dict

    @property
    def name(self):
        return " ".join([self.program.name, *self.arguments])


@dataclass
class Counts:
    runs: int = 0
    faults: collections.Counter = field(default_factory=collections.Counter)  # of each kind, as the proxy has counted them
    endings: collections.Counter = field(default_factory=collections.Counter)
    undisturbed: int = 0                                                      # runs that were over before their fault's position
    rests: int = 0                                                            # times at which the server was found at rest
    calls: int = 0                                                            # of sessions whose calls were compared, see check_calls()
    failures: list = field(default_factory=list)

    def cuts(self):
        """Connections that a fault has ended."""
        return sum(count for kind, count in self.faults.items() if kind in plans.ENDING)


def remote_programs(names=()):
    """The programs that run through a server as they are; of these the named ones. KeyError for a name that is not among them."""
    found = {name: p for name, p in harness.programs().items() if "remote" in p.modes}
    return [found[name] for name in names] if names else list(found.values())


def measure(server, programs):
    """The cases of programs, each of which has run once through a proxy that did nothing."""
    cases = []
    for program in programs:
        harness.build_program(program)
        for arguments in program.args:
            run = runs.through_proxy(server, program, arguments, seconds=program.seconds)
            ending = ending_of(program, run)
            if ending is not Ending.RIGHT:
                raise RuntimeError(f"{program.name} {arguments} without a fault: {ending.value}, exit code {run.code}\n{run.stdout}{run.stderr}")
            totals = {direction: sum(t[direction] for t in run.totals) for direction in plans.DIRECTIONS}
            cases.append(Case(program, tuple(arguments), totals))
    return cases


def planned(cases, seed, number, kinds, expectation):
    """The case and the faults of a run: by the seed and the number alone, where the cases are the same."""
    rng = random.Random(f"{seed}/{number}")
    case = cases[number % len(cases)]
    # A session that outlives its connections is cut several times.
    lanes = rng.randint(1, 4) if expectation is Expectation.RESUMED else 1
    return case, plans.seeded(rng, kinds, case.totals, lanes)


class Campaign:
    """Runs `cases` in turn, each with a plan made of the seed and the run's number, until `cuts` connections have been ended."""

    def __init__(self, server, cases, seed, kinds=(plans.CUT,), expectation=Expectation.RESUMED, jobs=2, say=print, faults_per_run=1):
        self.server, self.cases, self.seed, self.kinds, self.expectation = server, cases, seed, kinds, expectation
        self.jobs, self.say, self.faults_per_run = jobs, say, faults_per_run
        self.rest = Rest(server, READY, spare=jobs)
        self.counts = Counts()
        self.sent = []  # since the server was at rest: (case, pid, calls) of processes that ended well

    def run_one(self, case, plan, seed):
        """Runs a case with a plan and adds what came of it to the counts."""
        run = runs.through_proxy(self.server, case.program, case.arguments, plan, seed, seconds=case.program.seconds)
        return case, plan, seed, run

    def add(self, case, plan, seed, run):
        counts, ending = self.counts, ending_of(case.program, run)
        counts.runs += 1
        counts.endings[ending] += 1
        happened = [e for e in run.events if e.what in map(str, plan)]
        for event in happened:
            counts.faults[event.what.partition(":")[0]] += 1
        counts.undisturbed += not happened
        if ending is Ending.RIGHT:
            self.sent += [(case, stats["pid"], stats["calls_sent"]) for stats in run.stats]
        if not self.expectation.allows(ending, any(e.ends_connection for e in run.events), run):
            faults = " ".join(f"--fault {fault}" for fault in plan)
            again = f"scripts/chaos --program '{case.name}' {faults}"
            failure = f"{case.name}: {ending.value} (exit code {run.code}), seed {seed}\n  again: {again}\n"
            failure += "".join(f"  {event}\n" for event in run.events)
            failure += "".join(f"  | {line}\n" for line in (run.stdout[-2000:] + run.stderr[-2000:]).splitlines())
            counts.failures.append(failure)
            self.say(f"FAILED {failure}")

    def check_calls(self):
        """What each process has sent, the server has executed: as a server ends a session whose calls' numbers do not continue those
        before, equal counts mean that none was lost and none was executed twice. A process whose last connection is cut while it says
        goodbye does not come back: what it had sent then, for which it did not wait, may be missing."""
        executed = Sessions.of(self.server).executed
        for case, pid, calls in self.sent:
            done, said_goodbye = executed.get(pid, (None, False))
            if done == calls:
                self.counts.calls += calls
            elif said_goodbye or done is None or done > calls:
                failure = f"{case.name} (process {pid}): {calls} calls sent, {done} executed"
                self.counts.failures.append(failure)
                self.say(f"FAILED {failure}")
        self.sent = []

    def check_rest(self):
        left = self.rest.left_behind(REST_SECONDS)
        if left:
            self.counts.failures.append(f"left behind: {left}")
            self.say(f"FAILED left behind: {left}")
        else:
            self.counts.rests += 1
            self.check_calls()

    def run_plans(self, planned):
        """Runs (case, plan, seed) triples, `jobs` at a time, and looks at the server afterwards."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for done in pool.map(lambda p: self.run_one(*p), planned):
                self.add(*done)
        self.check_rest()

    def run(self, cuts):
        """Goes on until `cuts` connections were ended. Returns the counts."""
        began, number = time.monotonic(), 0
        while (before := self.counts.cuts()) < cuts:
            size = min(ROUND_RUNS, cuts - before)
            self.run_plans([(*planned(self.cases, self.seed, n, self.kinds, self.expectation), f"{self.seed}/{n}")
                            for n in range(number, number + size)])
            number += size
            endings = ", ".join(f"{count} × {ending.value}" for ending, count in self.counts.endings.most_common())
            self.say(f"[{time.monotonic() - began:5.0f}s] {self.counts.cuts()} of {cuts} cuts, {self.counts.runs} runs: {endings}, "
                     f"{len(self.counts.failures)} failures")
            if self.server.process.poll() is not None:
                break
        return self.counts
