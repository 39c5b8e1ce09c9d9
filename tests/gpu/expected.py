#!/usr/bin/env python3
"""Compares answers of warpline-gpu-probe with what NVIDIA's driver is known to answer: hardware.json, and where that says nothing
expected.json. What answers as Warpline does may also differ as ours.json says.

Usage: expected.py [--ours direct|remote] ANSWERS.json [NAME]    prints the counts and every difference; exit code 1 if there is one"""

import collections
import fnmatch
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
HARDWARE, HEADER, OURS = HERE / "hardware.json", HERE / "expected.json", HERE / "ours.json"
ASSERTING = ("hardware", "header")
UNDEFINED = ("crash", "hang", "exit")  # ends of NVIDIA's driver that nobody can want to see again
NOTHING_SAID = ("missing", "no fixture")
OF_THE_MACHINE = ("can_map", "managed_memory", "major_at_least_9", "pageable_access")  # values that decide which answer is right


class Expected:
    """What is known, question by question."""

    def __init__(self, ours=None):
        """@param ours  whose answers are asked about: None = NVIDIA's, direct = the software GPU's, remote = those through a server"""
        described = json.loads(HEADER.read_text())
        self.rules = described["rules"]
        self.questions = {id: row if isinstance(row, list) else [row] for id, row in described["questions"].items()}
        self.hardware = self._of_hardware(json.loads(HARDWARE.read_text()))
        self.classes = [known for known in json.loads(OURS.read_text())["classes"] if ours and known.get("side", ours) == ours]
        self.ours = ours

    def _of_hardware(self, seen):
        rows = {}
        for call, answers in seen["calls"].items():
            for answer, questions in answers.items():
                result, *written = answer.split(" ")
                for question in questions.split(" "):
                    rows[f"{call}/{question}"] = self._seen(result, {"written": written} if written else {}, seen["source"])
        for id, (result, *values) in seen["questions"].items():
            rows[id] = self._seen(str(result), values[0] if values else {}, seen["source"])
        return rows

    @staticmethod
    def _seen(result, values, source):
        if result in UNDEFINED:
            return {"evidence": "undefined", "result": result, "values": {}, "source": source}
        return {"evidence": "hardware", "result": int(result), "values": values, "source": source}

    def row(self, id, answer):
        """The row that holds for this answer: what hardware said, else the question's own, else a rule's, else unknown."""
        values = answer.get("values", {})
        seen = self.hardware.get(id)
        if seen and all(seen["values"].get(name) == values.get(name) for name in OF_THE_MACHINE if name in values):
            return seen
        for row in self.questions.get(id, []):
            if all(values.get(name) == value for name, value in row.get("when", {}).items()):
                return row
        if id not in self.questions and not seen:
            for rule in self.rules:
                if any(fnmatch.fnmatchcase(id, pattern) for pattern in rule["ids"]):
                    return rule
        return {"evidence": "unknown"}

    def known_class(self, id, answer):
        """The class of ours.json that allows an answer which is not the known one; None if there is none."""
        result = answer["result"]
        later = result == 0 and answer.get("values", {}).get("context_after") and "context_after" not in self.row(id, answer)["values"]
        said = {result, "later" if later else None, "error" if result not in (0, *UNDEFINED, *NOTHING_SAID) else None}
        for known in self.classes:
            if said & set(known["ours"]) and any(fnmatch.fnmatchcase(id, pattern) for pattern in known["ids"]):
                return known
        return None

    def difference(self, id, answer):
        """In words how an answer differs from what is asserted; empty if it does not."""
        row = self.row(id, answer)
        if row["evidence"] == "undefined" and self.ours and answer["result"] in UNDEFINED:
            return f"{answer['result']}, as NVIDIA's driver"
        if row["evidence"] not in ASSERTING:
            return ""
        if answer["result"] in NOTHING_SAID and not (self.ours and row["evidence"] == "hardware"):
            return ""
        problems = []
        if row["result"] is not None and answer["result"] != row["result"]:
            problems.append(f"{answer['result']} instead of {row['result']}")
        problems += self._values_that_differ(row, answer.get("values", {}))
        return f"{', '.join(problems)} [{row['evidence']}: {row['source']}]" if problems else ""

    @staticmethod
    def _values_that_differ(row, values):
        wanted = row.get("values", {})
        names = sorted({*wanted, *values}) if row["evidence"] == "hardware" else wanted
        return [f"{name} is {values.get(name)!r} instead of {wanted.get(name)!r}" for name in names
                if values.get(name) != wanted.get(name)]

    def counts(self, answers):
        """How many of the questions that were answered are of which evidence."""
        found = collections.Counter(self.row(id, answer)["evidence"] for id, answer in answers.items())
        return {evidence: found[evidence] for evidence in (*ASSERTING, "undefined", "unknown")}

    def all_differences(self, answers):
        """{id: words} of every answer that differs. A question that is known and that nobody asked is one too."""
        found = {id: self.difference(id, answer) for id, answer in answers.items()}
        found |= {id: "not asked" for id in {*self.questions, *self.hardware} if id not in answers}
        return {id: words for id, words in found.items() if words}

    def differences(self, answers):
        """As all_differences(), without those that ours.json allows, if this is about Warpline."""
        found = self.all_differences(answers)
        return {id: words for id, words in found.items() if id not in answers or not self.known_class(id, answers[id])}

    def unused(self, answers):
        """Classes of ours.json in which nothing differs any more, by what they are about."""
        differing = [id for id in self.all_differences(answers) if id in answers]
        used = [self.known_class(id, answers[id]) for id in differing]
        return [known["what"] for known in self.classes if known not in used]


def told(counts):
    return ", ".join(f"{count} {evidence}" for evidence, count in counts.items())


def main(words):
    ours = words[1] if words[0] == "--ours" else None
    path, name, *_ = words[2 if ours else 0:] + ["answers"]
    answers = json.loads(pathlib.Path(path).read_text())
    expected = Expected(ours)
    differences = expected.differences(answers)
    for id, said in sorted(differences.items()):
        print(f"{id}: {said}")
    print(f"{name}: {len(answers)} questions ({told(expected.counts(answers))}), {len(differences)} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
