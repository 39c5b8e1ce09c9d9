"""Runs programs of tests/programs through a fault proxy and counts how they end.

Programs run over real TLS against a gpu-server with the software GPU; connections are cut at byte positions that follow from the seed.
Every run must end as expected, and the server must be at rest after every 100 runs: no session, worker or descriptor left behind."""

import argparse
import os
import sys

import harness

from . import campaign
from . import plan as plans
from .expectation import Ending, Expectation


def arguments(words):
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=1000, metavar="N", help="connections to be ended (default %(default)s)")
    parser.add_argument("--seed", default="1", metavar="S", help="where faults are follows from it (default %(default)s)")
    parser.add_argument("--program", action="append", default=[], metavar="NAME", nargs="+",
                        help="only these of tests/programs/programs.toml; 'NAME ARGUMENT…' as one word: only with these arguments")
    parser.add_argument("--kinds", default=",".join((plans.CUT, plans.HALF_CLOSE, plans.CORRUPT)),
                        help=f"faults to choose from, with commas: {', '.join(plans.KINDS)} (default %(default)s)")
    parser.add_argument("--fault", action="append", default=[], metavar="FAULT",
                        help="run each program once with this fault instead, KIND:CONNECTION:DIRECTION:OFFSET[:VALUE]; may be repeated")
    parser.add_argument("--expect", choices=[e.value for e in Expectation], default=Expectation.RESUMED.value,
                        help="what a lost connection means (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="programs at a time (default %(default)s)")
    options = parser.parse_args(words)
    options.program = [name for names in options.program for name in names]
    options.kinds = options.kinds.split(",")
    unknown = set(options.kinds) - set(plans.KINDS)
    if unknown:
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}")
    if not options.fault and not set(options.kinds) & set(plans.ENDING):
        parser.error(f"--kinds needs one that ends connections ({', '.join(plans.ENDING)}): --cuts counts those")
    try:
        options.fault = [plans.parse(text) for text in options.fault]
        options.programs = campaign.remote_programs([name.split()[0] for name in options.program])
    except ValueError as error:
        parser.error(str(error))
    except KeyError as error:
        parser.error(f"{error} is no program that runs through a server")
    return options


def say(line):
    print(line, flush=True)


def main(words=None):
    options = arguments(words)
    with harness.Server(flags=["--workers-ready", str(campaign.READY)]) as server:
        cases = campaign.measure(server, options.programs)
        chosen = [name for name in options.program if " " in name]
        cases = [c for c in cases if not chosen or c.name in chosen or c.program.name in options.program]
        say(f"{len(cases)} programs, seed {options.seed}, expected of a lost connection: {options.expect}")
        running = campaign.Campaign(server, cases, options.seed, options.kinds, Expectation(options.expect), options.jobs, say)
        if options.fault:
            running.run_plans([(case, options.fault, options.seed) for case in cases])
        else:
            running.run(options.cuts)
        counts = running.counts
    faults = ", ".join(f"{count} × {kind}" for kind, count in counts.faults.most_common()) or "none"
    say(f"faults:           {faults}")
    say(f"cuts:             {counts.cuts()}")
    say(f"programs run:     {counts.runs} ({counts.undisturbed} were over before their fault)")
    for ending in Ending:
        say(f"{ending.value + ':':18}{counts.endings[ending]}")
    say(f"calls compared:   {counts.calls}, sent and executed")
    say(f"server at rest:   {counts.rests} times")
    say(f"failures:         {len(counts.failures)}")
    return 1 if counts.failures or not counts.runs else 0


if __name__ == "__main__":
    sys.exit(main())
