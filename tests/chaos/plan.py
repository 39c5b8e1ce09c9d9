"""What goes wrong and where: faults at byte positions of connections, as text and by seed.

A fault reads KIND:CONNECTION:DIRECTION:OFFSET[:VALUE]. Connections count from 1, in the order in which the proxy accepts them. The
direction is `up` (to the server) or `down`. The fault happens when OFFSET bytes of that direction have passed. So a plan that a log
shows repeats what it did."""

import random
from dataclasses import dataclass

UP, DOWN = "up", "down"
DIRECTIONS = (UP, DOWN)

CUT = "cut"                # a reset to both sides
HALF_CLOSE = "half-close"  # the receiver of the direction sees its end; what comes after it is thrown away
CORRUPT = "corrupt"        # the byte at the offset arrives with bits flipped; VALUE: which ones (default 1)
DELAY = "delay"            # from here on every byte takes VALUE seconds longer
THROTTLE = "throttle"      # from here on VALUE bytes pass per second
BLACK_HOLE = "black-hole"  # nothing passes in either direction, and nothing is closed; for VALUE seconds, or until it is released
HOLD = "hold"              # the same in this direction only
REORDER = "reorder"        # waits until other connections have delivered VALUE bytes more in this direction (default 1)

KINDS = (CUT, HALF_CLOSE, CORRUPT, DELAY, THROTTLE, BLACK_HOLE, HOLD, REORDER)
# The connection that opens a session is the first, its lanes follow; and what it carries in a direction, about.
DOOR, DOOR_BYTES = 1, 3000
ENDING = (CUT, HALF_CLOSE, CORRUPT)  # the connection does not outlive them

# What seeded faults of a kind that has a value take; a hole is short enough to be no loss with the shortest heartbeat.
VALUES = {DELAY: lambda rng: rng.uniform(0.001, 0.05), THROTTLE: lambda rng: rng.uniform(4e6, 64e6), CORRUPT: lambda rng: 1 << rng.randrange(8),
          BLACK_HOLE: lambda rng: rng.uniform(0.01, 0.5), HOLD: lambda rng: rng.uniform(0.01, 0.5), REORDER: lambda rng: 1 << rng.randrange(14)}


@dataclass(frozen=True)
class Fault:
    kind: str
    connection: int
    direction: str
    offset: int
    value: float | None = None

    def __str__(self):
        value = "" if self.value is None else f":{self.value:g}"
        return f"{self.kind}:{self.connection}:{self.direction}:{self.offset}{value}"

    @property
    def ends_connection(self):
        return self.kind in ENDING


def parse(text):
    """A fault of its text; ValueError says what is wrong with it."""
    fields = text.split(":")
    if len(fields) not in (4, 5) or fields[0] not in KINDS or fields[2] not in DIRECTIONS:
        raise ValueError(f"{text!r} is not KIND:CONNECTION:DIRECTION:OFFSET[:VALUE] with a kind of {', '.join(KINDS)} and {UP} or {DOWN}")
    fault = Fault(fields[0], int(fields[1]), fields[2], int(fields[3]), float(fields[4]) if len(fields) == 5 else None)
    if fault.value is None and fault.kind in (DELAY, THROTTLE):
        raise ValueError(f"{text!r}: {fault.kind} needs a value")
    return fault


def seeded_offset(rng, total):
    """A position in a direction that carries `total` bytes: most anywhere, a quarter nearer to the beginning, where each byte is another
    step of the handshake and of the session's start."""
    if rng.random() < 0.75:
        return rng.randrange(max(total, 1))
    return int(max(total, 1) ** rng.random())


def seeded(rng: random.Random, kinds, totals, lanes=1):
    """A fault for each of `lanes` connections, of one of `kinds`, somewhere in what the connection carries (`totals`: bytes by
    direction); now and then one for the connection before them, which opens the session."""
    plan = []
    for connection in range(DOOR if rng.random() < 0.25 else DOOR + 1, DOOR + lanes + 1):
        kind = rng.choice(kinds)
        direction = rng.choice(DIRECTIONS)
        offset = seeded_offset(rng, DOOR_BYTES if connection == DOOR else totals[direction])
        plan.append(Fault(kind, connection, direction, offset, VALUES[kind](rng) if kind in VALUES else None))
    return plan
