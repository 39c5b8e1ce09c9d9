#!/usr/bin/env python3
"""Asks a machine's CUDA driver what Warpline depends on, compares the answers with the software GPU's strict profile, then runs programs
natively and through a gpu-server, and writes one report file to send in. Needs a build (build/release), Python 3.9 and libc.

Usage: run.py [--short] [--minutes N] [--only-programs] [--jobs N] [--report FILE] [PROGRAM …]
       run.py --pack FILE.tar.gz [PROGRAM …]
--short asks less of everything, --minutes limits the first part (5), --jobs is how many programs run at a time (1),
--only-programs leaves the questions out. PROGRAMs limit the programs that are run, or packed."""

import argparse
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import machine
from machine import harness

import expected
import json
import pack
import programs
import questions
from report import Report

PROBE = harness.BUILD / "bin" / "warpline-gpu-probe"


def reference():
    """The software GPU as the strict profile has it: what Warpline takes a driver for."""
    return machine.Place(harness.SOFTGPU, {"SOFTGPU_PROFILE": "strict", "WARPLINE_LOG": "off"})


def one_question(report, question, place, strict, remote):
    answer = machine.ask(question, place)
    if "skipped" in answer:
        report.add(question.id, "skipped", answer["skipped"])
        return
    data, found = {"answer": answer}, []
    if question.compared:
        data["software"] = machine.ask(question, strict)
        if "skipped" not in data["software"]:
            found += machine.differences(answer, data["software"])
    if question.remote and remote:
        data["remote"] = machine.ask(question, remote)
        found += [(f"{name}, through a server", value, wanted) for name, value, wanted in machine.differences(data["remote"], answer)]
    words = answer.get("failed") or ", ".join(f"{name} {value}" for name, value in answer["values"].items() if not isinstance(value, dict))
    status = "differs" if found else "failed" if "failed" in answer else "same" if question.compared else "seen"
    report.add(question.id, status, words, differences=found, **data)


def first_part(report, options, place, strict, pair):
    """The first minutes: what the driver is and does. Questions that there is no time for are reported as skipped."""
    deadline, part = time.monotonic() + 60 * options.minutes, ""
    for question in questions.first_part():
        if options.short and not question.short:
            continue
        if question.part != part:
            part = question.part
            report.part(part)
        if time.monotonic() > deadline:
            report.add(question.id, "skipped", f"the {options.minutes} minutes are over")
        else:
            one_question(report, question, place, strict, pair.remote if pair else None)
        if question.function == "versions" and pair:
            report.part("2 runtimes")
            programs.runtimes(report, pair, options.short)


def arguments(report, options, place, remote):
    """The argument probe, directly and through a server, against what is known of NVIDIA's driver."""
    report.part("Some thousand small questions about arguments (docs/probe.md)")
    if not PROBE.exists():
        report.add("arguments", "skipped", f"{PROBE.name} is not in this build")
        return
    for name, where, ours in (("directly", place, None), ("through a server", remote, "remote")):
        if where is None:
            continue
        known = expected.Expected(ours)
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "answers.json"
            command = [PROBE, "--driver", where.driver, "--out", out, *(["--only", "launch/*"] if options.short else [])]
            try:
                done = subprocess.run([str(c) for c in command], env=where.environment(), capture_output=True, text=True, timeout=900)
            except subprocess.TimeoutExpired:
                report.add(f"arguments {name}", "failed", "no end within 15 minutes")
                continue
            if not out.exists():
                report.add(f"arguments {name}", "failed", f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
                continue
            answers = json.loads(out.read_text())
        asked = known.differences(answers)
        found = [(id, words, "see docs/probe.md") for id, words in sorted(asked.items()) if words != "not asked" or not options.short]
        report.add(f"arguments {name}", "differs" if found else "same", f"{len(answers)} questions ({expected.told(known.counts(answers))})",
                   differences=found, answers=answers)


def everything(report, options, driver):
    place, strict = machine.Place(driver), reference()
    with tempfile.TemporaryDirectory(prefix="warpline-gpu-") as folder:
        try:
            server = harness.Server(driver=driver, certificates=machine.certificates(folder))
        except (machine.NoDriver, RuntimeError, OSError) as problem:
            server = None
            report.add("gpu-server", "failed", str(problem))
        try:
            remote = machine.Remote(server) if server else None
            pair = programs.Pair(report, place, remote, options.jobs) if remote else None
            if not options.only_programs:
                first_part(report, options, place, strict, pair)
                arguments(report, options, place, remote)
            if pair:
                report.part("Programs, natively and through a server")
                programs.own(report, pair, options.programs, options.short)
                programs.samples(report, pair)
                programs.frameworks(report, pair, options.programs)
        finally:
            if server:
                report.facts["server_log"] = server.log_text()[-1000000:]
                server.__exit__()


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--only-programs", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", type=pathlib.Path, default=harness.ROOT / "build" / "gpu-report.txt")
    parser.add_argument("--pack", metavar="FILE")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    options = parser.parse_args(words)
    if options.pack:
        return pack.main(options.pack, options.programs)
    report = Report()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the report so far is written
    try:
        driver = machine.find_driver()
    except machine.NoDriver as problem:
        print(f"no GPU here: {problem}\n\n0 passed, 0 failed, 1 skipped")
        return 1
    report.say(f"Driver: {driver}")
    report.facts["driver"] = driver.name
    try:
        everything(report, options, driver)
    finally:
        report.close()
        report.write(options.report)
    print(f"\nThe report to send in: {options.report}")
    return 1 if report.count("failed") or not report.count("same") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
