"""How a program ended, and whether it should have: the one place that says what a lost connection means to a program."""

import enum
import re
import signal

import harness

LOG = "warn,client=info"
STARTED = "client: connected to "  # the client's line once it has a session, with that LOG
LOST = "lost the session with "    # and once it has lost it
STALLED = "the TLS handshake with"  # … took too long: what it says of a server that does not go on


def says(number, name):
    """How programs tell an error: check.h, those on the driver API, EXPECT_EQ, until_error, and Thrust."""
    return re.compile(rf"\({number}\)|: {number}$|\berror {number}\b|\bgot (?:\S+ and )?{number}\b|{name}", re.MULTILINE)


SAYS_LOST = says(46, "cudaErrorDevicesUnavailable")
SAYS_NO_DEVICE = says(100, "cudaErrorNoDevice")


class Ending(enum.Enum):
    RIGHT = "the right result"
    LOST = "error 46"
    NO_SESSION = "no session"     # error 100
    WRONG = "a wrong ending"
    CRASHED = "a crash"
    HUNG = "a hang"


def ending_of(program, run):
    """What a run of a program came to. `run.code` is None if it had to be killed."""
    if run.code is None:
        return Ending.HUNG
    # Thrust reports CUDA's errors as exceptions, from destructors too: whoever uses it ends by SIGABRT.
    by_exception = run.code == -signal.SIGABRT and "terminate called after throwing an instance of 'thrust::" in run.stderr
    if run.code < 0 and not by_exception:
        return Ending.CRASHED
    if run.code == 0:
        return Ending.WRONG if harness.wrong_output(program, run.stdout) else Ending.RIGHT
    said = run.stdout + run.stderr
    if STARTED not in run.stderr:
        return Ending.NO_SESSION if SAYS_NO_DEVICE.search(said) else Ending.WRONG
    if SAYS_LOST.search(said) or (by_exception and LOST in run.stderr):  # CUB makes other errors of it
        return Ending.LOST if LOST in run.stderr else Ending.WRONG  # its line comes before the error
    return Ending.WRONG


class Expectation(enum.Enum):
    """What a program whose connection ended under it may come to."""
    LOST = "lost"        # a session is one connection: right, if nothing was missing any more; error 46; or no session, if none had started
    RESUMED = "resumed"  # sessions outlive connections: right; or no session, if damage left a side waiting for the rest of a handshake

    def allows(self, ending, connection_ended, run):
        """True if a run may end so; without an ended connection only with the right result."""
        if ending is Ending.NO_SESSION and STALLED in run.stderr:
            return any(event.what.startswith("corrupt:") for event in run.events)
        if self is Expectation.LOST and connection_ended:
            return ending in (Ending.RIGHT, Ending.LOST, Ending.NO_SESSION)
        return ending is Ending.RIGHT
