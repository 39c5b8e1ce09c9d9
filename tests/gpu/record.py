#!/usr/bin/env python3
"""Makes a driver's answers the known ones: writes hardware.json, a line for each function and for each question by hand, and takes
what it answers out of expected.json.

Usage: record.py ANSWERS.json SOURCE       SOURCE: what answered, as "H100, driver 580.159.04, CUDA 13.0" """

import json
import pathlib
import sys

import expected

ABOUT = [
    "What a driver of NVIDIA's answered to the questions of tests/gpu/probe, written by record.py. docs/probe.md says how it is compared.",
    "calls: function, {answer: the questions so answered}. An answer is the CUresult, or crash, hang, exit; then which parameters were"
    " written to.",
    "questions: those by hand, each [answer, values].",
]


def answer_of(said):
    """The key of an answer to a question made of the description."""
    written = said.get("values", {}).get("written", [])
    return " ".join([str(said["result"]), *written])


def facts(answers):
    """What of the answers tells of the driver: (calls, questions)."""
    calls, questions = {}, {}
    for id, said in sorted(answers.items()):
        if said["result"] in expected.NOTHING_SAID:
            continue
        call, _, question = id.partition("/")
        values = {name: value for name, value in said.get("values", {}).items() if name != "signal"}
        if set(values) <= {"written"} and call.startswith("cu"):
            calls.setdefault(call, {}).setdefault(answer_of(said), []).append(question)
        else:
            questions[id] = [said["result"], values] if values else [said["result"]]
    return {call: {answer: " ".join(ids) for answer, ids in sorted(all.items())} for call, all in calls.items()}, questions


def lines(members):
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in members.items())


def written(about, source, calls, questions):
    head = ",\n".join(json.dumps(line) for line in about)
    return (f'{{\n"about": [\n{head}\n],\n"source": {json.dumps(source)},\n"calls": {{\n{lines(calls)}\n}},\n'
            f'"questions": {{\n{lines(questions)}\n}}\n}}\n')


def main(path, source):
    calls, questions = facts(json.loads(pathlib.Path(path).read_text()))
    expected.HARDWARE.write_text(written(ABOUT, source, calls, questions))
    print(f"{sum(len(ids.split()) for all in calls.values() for ids in all.values()) + len(questions)} answers of {source}")


if __name__ == "__main__":
    main(*sys.argv[1:])
