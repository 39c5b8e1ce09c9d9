#!/usr/bin/env python3
"""Compares answers of warpline-gpu-probe with what NVIDIA's driver is known to answer (expected.json).

Usage: expected.py ANSWERS.json [NAME]     prints the counts and every difference; exit code 1 if there is one"""

import collections
import fnmatch
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ASSERTING = ("hardware", "header")


class Expected:
    """What is known, question by question."""

    def __init__(self, path=HERE / "expected.json"):
        described = json.loads(pathlib.Path(path).read_text())
        self.rules = described["rules"]
        self.questions = {id: row if isinstance(row, list) else [row] for id, row in described["questions"].items()}

    def row(self, id, answer):
        """The row that holds for this answer: the question's own, else a rule's, else one of evidence unknown."""
        for row in self.questions.get(id, []):
            values = answer.get("values", {})
            if all(values.get(name) == value for name, value in row.get("when", {}).items()):
                return row
        if id not in self.questions:
            for rule in self.rules:
                if any(fnmatch.fnmatchcase(id, pattern) for pattern in rule["ids"]):
                    return rule
        return {"evidence": "unknown"}

    def difference(self, id, answer):
        """In words how an answer differs from what is asserted; empty if it does not."""
        row = self.row(id, answer)
        if row["evidence"] not in ASSERTING:
            return ""
        problems = []
        if row["result"] is not None and answer["result"] != row["result"]:
            problems.append(f"{answer['result']} instead of {row['result']}")
        values = answer.get("values", {})
        for name, value in row.get("values", {}).items():
            if values.get(name) != value:
                problems.append(f"{name} is {values.get(name)!r} instead of {value!r}")
        return f"{', '.join(problems)} [{row['evidence']}: {row['source']}]" if problems else ""

    def counts(self, answers):
        """How many of the questions that were answered are of which evidence."""
        found = collections.Counter(self.row(id, answer)["evidence"] for id, answer in answers.items())
        return {evidence: found[evidence] for evidence in (*ASSERTING, "unknown")}

    def differences(self, answers):
        """{id: words} of every answer that differs. A question that expected.json names and nobody asked is one too."""
        found = {id: self.difference(id, answer) for id, answer in answers.items()}
        found |= {id: "not asked" for id in self.questions if id not in answers}
        return {id: words for id, words in found.items() if words}


def told(counts):
    return ", ".join(f"{count} {evidence}" for evidence, count in counts.items())


def main(path, name="answers"):
    answers = json.loads(pathlib.Path(path).read_text())
    expected = Expected()
    differences = expected.differences(answers)
    for id, words in sorted(differences.items()):
        print(f"{id}: {words}")
    print(f"{name}: {len(answers)} questions ({told(expected.counts(answers))}), {len(differences)} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
