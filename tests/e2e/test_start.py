"""What a program waits for at its start (C2, A2)."""

import os
import signal
import subprocess
import sys
import unittest

import harness
from round_trips import RoundTripCounter

VECTOR_ADD = harness.programs()["vector_add"]
APPLICATION_DATA = 23  # the type of all encrypted records of TLS 1.3, those of its handshake among them


def setUpModule():
    harness.build_program(VECTOR_ADD)


def records(data):
    """The types of the TLS records in it."""
    types = []
    while len(data) >= 5:
        types.append(data[0])
        data = data[5 + int.from_bytes(data[3:5], "big"):]
    return types


class StartTest(unittest.TestCase):
    def test_c2_hello_leaves_after_four_round_trips(self):
        """TCP, TLS with the door, Open, TLS with the worker: docs/session.md#start."""
        with harness.Server() as server, RoundTripCounter(server) as counter:
            # Stopped until it is watched.
            command = [sys.executable, "-c", "import os, signal, sys; os.kill(os.getpid(), signal.SIGSTOP); os.execv(sys.argv[1], sys.argv[1:])",
                       str(VECTOR_ADD.binary)]
            program = subprocess.Popen(command, env=harness.environment_for("remote", counter), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            os.waitid(os.P_PID, program.pid, os.WSTOPPED)
            counter.watch(program.pid)
            program.send_signal(signal.SIGCONT)
            out, err = program.communicate(timeout=120)
            self.assertEqual(program.returncode, 0, out + err)
            self.assertEqual(len(counter.connections), 2)
            door, lane = counter.connections
        told = [{time: len(data) for time, data in connection.sent.items()} for connection in (door, lane)]
        print(f"       bytes by the round trips before them: door {told[0]}, lane {told[1]}")
        self.assertEqual(door.since, 0)
        # TLS and what it protects; the lane is dialled with Open on its way.
        self.assertEqual(sorted(door.sent)[:2], [1, 2], told)
        self.assertEqual(lane.since, 2, told)
        self.assertEqual(sorted(lane.sent)[:2], [3, 4], told)
        # Of the lane's records the end of the handshake is one, and Hello another.
        self.assertGreaterEqual(records(lane.sent[4]).count(APPLICATION_DATA), 2, told)
        self.assertGreater(len(lane.sent[4]), 200, told)


if __name__ == "__main__":
    unittest.main()
