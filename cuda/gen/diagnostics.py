"""What is wrong with a description: each finding has a kind, a place and the name of the entry."""

from __future__ import annotations

from dataclasses import dataclass

from model import Place

# Every kind of finding. A test of the generator exists for each.
KINDS = {
    "bad-yaml": "the file is not readable as YAML of the expected shape",
    "unknown-key": "a key that no rule knows",
    "missing-key": "a key that must be there is not",
    "bad-value": "a value of the wrong form",
    "unknown-class": "the class is none of the call classes",
    "bad-header": "cuda.h is not there, or cannot be read",
    "no-prototype": "a call that cuda.h does not declare",
    "unknown-param": "something is said of a parameter that the call does not have",
    "unknown-type": "the C type is in no list of types.yaml",
    "unknown-handle": "a kind of handle that types.yaml does not name",
    "pointer-without-dir": "a pointer parameter must say which way it travels",
    "pointer-without-length": "a pointer to bytes or numbers must say how many",
    "bad-length": "the length names no parameter",
    "bad-payload": "payload: more than one, or not where the message allows it",
    "bad-range": "a range of device memory that is not described as one",
    "range-missing": "a device address of which no range says what is touched there",
    "needs-hook": "the entry cannot be generated and names no hook",
    "hook-without-side": "a hook is named for a side on which the call has no body",
    "parks-missing": "a call that somebody waits for does not say whether the driver may keep it waiting",
    "reply-without-wait": "a call that nobody waits for has a reply with fields",
    "needs-wire": "a parameter has no natural form on the wire",
    "duplicate-name": "two entries, parameters or fields of one name",
    "duplicate-id": "two entries of one id",
    "id-changed": "the id is not the one that ids.lock has for this name",
    "id-reused": "the id belonged to another name once",
    "id-not-locked": "the id is not in ids.lock yet",
    "bad-reason": "unsupported without a reason, or a reason without unsupported",
    "symbol-surplus": "an exported name that the driver does not have",
    "symbol-missing": "a symbol of the driver that is neither described nor unsupported",
    "symbol-duplicate": "a symbol that two entries claim",
}


@dataclass(frozen=True)
class Diagnostic:
    place: Place
    entry: str
    kind: str
    text: str

    def __str__(self) -> str:
        entry = f"{self.entry}: " if self.entry else ""
        return f"{self.place}: error: {entry}{self.text} [{self.kind}]"


class Diagnostics:
    """Collects findings, so that one run shows all of them."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    def add(self, place: Place, entry: str, kind: str, text: str) -> None:
        assert kind in KINDS, kind
        self.found.append(Diagnostic(place, entry, kind, text))

    def raise_if_any(self) -> None:
        if self.found:
            raise DescriptionError(self.found)


class DescriptionError(Exception):
    def __init__(self, found: list[Diagnostic]) -> None:
        super().__init__("\n".join(str(d) for d in found))
        self.found = found
