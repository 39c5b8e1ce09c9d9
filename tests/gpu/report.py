"""The report of scripts/test-gpu: rows as they come, a table of differences, and one file with text and data to send in."""

import datetime
import json
import os
import platform

PARTS_END = "==== data for Warpline's developers (JSON) ===="


class Report:
    """Rows are printed as they come. A row's status is same, seen (nothing to compare with), differs, skipped or failed."""

    def __init__(self):
        self.rows, self.lines, self.facts = [], [], {}

    def say(self, line=""):
        self.lines.append(line)
        print(line, flush=True)

    def part(self, title):
        self.say()
        self.say(title)

    def add(self, id, status, words="", **data):
        self.rows.append({"id": id, "status": status, "words": words, **data})
        self.say(f"  {status:8} {id}{'  ' + words if words else ''}")

    def count(self, status):
        return sum(row["status"] == status for row in self.rows)

    def close(self):
        """Prints the table of differences and the sum."""
        self.part("What differs")
        table = [(row["id"], *map(str, d)) for row in self.rows for d in row.get("differences", [])]
        if table:
            head = ("question", "what", "here", "expected")
            widths = [max(len(row[i]) for row in [head, *table]) for i in range(3)]
            for row in [head, *table]:
                self.say("  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]))
        else:
            self.say("  nothing")
        self.say()
        self.say(f"{self.count('same') + self.count('seen')} as expected or noted, {self.count('differs')} differ, "
                 f"{self.count('failed')} failed, {self.count('skipped')} skipped")

    def write(self, path):
        """One file: the text as printed, then all data."""
        self.facts |= {"date": datetime.date.today().isoformat(), "kernel": platform.release(), "machine": platform.machine(),
                       "libc": " ".join(platform.libc_ver()), "python": platform.python_version(), "processors": os.cpu_count()}
        data = json.dumps({"format": 1, "facts": self.facts, "rows": self.rows}, indent=1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["Warpline on a GPU: what was asked, and what the driver answered.",
                                   "This file holds versions, device names, times and error codes, and the last words of programs that "
                                   "failed; no data of yours.", *self.lines, "", PARTS_END, data, ""]))


def read(path):
    """The data of a report."""
    return json.loads(path.read_text().split(PARTS_END, 1)[1])
