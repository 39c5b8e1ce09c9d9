"""Traces of programs, and what `warpline analyze` makes of them (E8). Counts and order are asserted here; times never are."""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import harness

PROGRAMS = ["vector_add", "streams_events", "host_threads", "graphs", "callbacks"]
SECONDS = 60
# Each work() waits once: what was given the device is not known to be done.
WORKING = """
import ctypes, os, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
               cuda.cuMemAlloc_v2(ctypes.byref(memory), 4)):
    assert result == 0, result
def work():
    return cuda.cuMemsetD8_v2(memory, 1, 4) or cuda.cuCtxSynchronize()
"""
# A child of the program's that has a session as well, while the parent has its own.
TWO_PROCESSES = WORKING + """
assert work() == 0
if "child" not in sys.argv:
    print(os.getpid(), flush=True)
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1], "", "child"])
    print(child.pid, flush=True)
    assert child.wait() == 0
    if os.fork() == 0:  # has no session, and writes nothing
        assert work() == 3
        sys.exit(0)
    assert os.wait()[1] == 0
    assert work() == 0
"""
ENDLESS = WORKING + """
while work() == 0:
    pass
"""


def setUpModule():
    for name in [*PROGRAMS, "pools", "polling", "poll_loops", "ahead"]:
        harness.build_program(harness.programs()[name])


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def of(trace, category):
    return [event for event in trace if event.get("cat") == category]


def begin(event):
    return event["ts"]


def end(event):
    return event["ts"] + event["dur"]


def analyze(path, *arguments):
    done = subprocess.run([harness.WARPLINE, "analyze", path, "--json", *arguments], capture_output=True, text=True,
                          timeout=harness.patience(SECONDS))  # a trace may have tens of megabytes
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server().__enter__()
        cls.folder = tempfile.TemporaryDirectory(prefix="warpline-trace-")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        cls.server.__exit__()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def trace(self, name, extra=None, server=None, args=None):
        """Runs a program and reads its trace: (file, its events, the run)."""
        program, path = harness.programs()[name], self.path(name + ".json")
        done = harness.run([program.binary, *(args or program.args[0])], "remote", server or self.server, {"WARPLINE_TRACE": path, **(extra or {})},
                           seconds=program.seconds)
        self.assertEqual(done.code, 0, done.stdout + done.stderr)
        self.assertIsNone(harness.wrong_output(program, done.stdout), done.stdout)
        return path, read(path), done

    def check_nesting(self, events):
        """Slices of one thread lie within each other, or apart."""
        by_thread = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                by_thread[event["pid"], event["tid"]].append(event)
        for slices in by_thread.values():
            around = []
            for event in sorted(slices, key=lambda e: (begin(e), -e["dur"])):
                while around and end(around[-1]) <= begin(event) + 1e-3:
                    around.pop()
                if around:
                    self.assertLessEqual(end(event), end(around[-1]) + 2e-3, f"{event} goes beyond {around[-1]}")
                around.append(event)

    def check_waits(self, trace, done):
        waits = collections.Counter(event["name"].removeprefix("wait: ") for event in of(trace, "wait"))
        self.assertEqual(dict(waits), done.stats["waits"])

    def check_server(self, trace):
        """What the server executed lies where the client waited for it, as exactly as the clocks are known."""
        error = trace[-1]["args"]["server_clock_error_us"] + 0.001
        calls, executed = of(trace, "call"), {event["args"]["call"]: event for event in of(trace, "server")}
        for wait in of(trace, "wait"):
            number = wait["args"]["call"]
            self.assertIn(number, executed, "the server told nothing of a call that was waited for")
            began = [begin(call) for call in calls if call["tid"] == wait["tid"] and begin(call) <= begin(wait) and end(call) >= end(wait)]
            self.assertGreaterEqual(begin(executed[number]), min(began, default=begin(wait)) - error)
            self.assertLessEqual(end(executed[number]), end(wait) + error)

    def check_all_executed(self, trace, done):
        numbers = [event["args"]["call"] for event in of(trace, "server")]
        self.assertEqual(len(numbers), len(set(numbers)), "a call was executed twice")
        self.assertEqual(sorted(numbers), list(range(1, done.stats["calls_sent"] + 1)))

    def test_traces_of_programs(self):
        for name in PROGRAMS:
            with self.subTest(name):
                _, trace, done = self.trace(name)
                self.assertEqual(trace[-1]["name"], "warpline_end")
                self.check_nesting(trace)
                self.check_waits(trace, done)
                self.check_server(trace)
                self.check_all_executed(trace, done)
                sent = sum(event["args"].get("calls", 0) for event in of(trace, "sent") if event["name"] == "batch")
                self.assertEqual(sent, done.stats["calls_sent"])

    def test_a_trace_costs_no_wait(self):
        for name in ["vector_add", "graphs", "pools"]:  # of several threads one may do what spares another its wait
            with self.subTest(name):
                program = harness.programs()[name]
                plain = harness.run([program.binary, *program.args[0]], "remote", self.server, seconds=program.seconds)
                _, _, traced = self.trace(name)
                self.assertEqual(plain.stats["waits"], traced.stats["waits"])
                self.assertEqual(plain.stats["calls_sent"], traced.stats["calls_sent"])

    def test_a_server_may_tell_nothing(self):
        with harness.Server(flags=["--tell-executed=false"]) as server:
            path, trace, done = self.trace("vector_add", server=server)
            self.assertEqual(of(trace, "server"), [])
            self.check_waits(trace, done)
            said = analyze(path, "--rtt", "30ms")
            self.assertTrue(any("tell_executed" in text for text in said["reservations"]))
            self.assertGreaterEqual(said["predictions"][0]["seconds"], 0.030 * done.stats["blocking_round_trips"])

    def test_each_process_has_a_file(self):
        for pattern in ("two.json", "two-%p.json"):
            done = harness.run([sys.executable, "-c", TWO_PROCESSES, TWO_PROCESSES], "remote", self.server,
                               {"WARPLINE_TRACE": self.path(pattern)})
            self.assertEqual(done.code, 0, done.stderr)
            parent, child = done.stdout.split()
            files = [pattern, f"{pattern}.{child}"] if "%p" not in pattern else [f"two-{pid}.json" for pid in (parent, child)]
            for file, pid, waits in zip(files, (parent, child), (2, 1)):
                trace = read(self.path(file))
                self.assertEqual({event["pid"] for event in of(trace, "call")}, {int(pid)}, file)
                self.assertEqual(len(of(trace, "wait")), waits, "a forked child's calls are none of its parent's")

    def test_a_killed_program_leaves_a_beginning(self):
        path = self.path("killed.json")
        process = harness.popen([sys.executable, "-c", ENDLESS], "remote", self.server, {"WARPLINE_TRACE": path})
        try:
            def written():
                return os.path.exists(path) and pathlib.Path(path).read_text(errors="replace").count('"cat":"wait"') > 100
            self.assertTrue(harness.until(written))
        finally:
            process.kill()
            process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        said = analyze(path)
        self.assertFalse(said["complete"])
        self.assertGreater(said["wait_count"], 100)
        self.assertTrue(any("cuCtxSynchronize" in advice for advice in said["advice"]), said["advice"])

    def test_a_trace_that_cannot_be_written_stops_no_program(self):
        program = harness.programs()["vector_add"]
        done = harness.run([program.binary], "remote", self.server, {"WARPLINE_TRACE": self.path("no/such/folder.json")})
        self.assertEqual(done.code, 0)
        self.assertIn("the trace cannot be written", done.stderr)

    def test_analyses_count_what_statistics_count(self):
        for name in PROGRAMS:
            path, _, done = self.trace(name)
            said = analyze(path)
            self.assertTrue(said["complete"])
            self.assertEqual(said["wait_count"], done.stats["blocking_round_trips"])
            waits = collections.Counter()
            for row in said["waits"]:
                waits[row["sent"]] += row["count"]
            self.assertEqual(dict(waits), done.stats["waits"])
            shares = said["shares"]
            parts = sum(value for key, value in shares.items() if key != "all_us")
            self.assertLessEqual(abs(parts - shares["all_us"]), 0.02 * shares["all_us"] + 1)

    def test_answers_say_what_told_them(self):
        """Of an event that a program has polled the server tells the end of later records unasked: that reply is what the program
        waited for, though no call of it waits."""
        _, trace, _ = self.trace("polling")
        executed = {event["args"]["call"]: event["name"] for event in of(trace, "server")}
        told = {event["args"]["call"]: begin(event) for event in of(trace, "received") if event["name"] == "reply"}
        waited = {event["args"]["call"] for event in of(trace, "wait")}
        answered = [event for event in of(trace, "call") if "answered_by" in event["args"]]
        unasked = collections.Counter()
        for event in answered:
            number = event["args"]["answered_by"]
            self.assertNotIn("result", event["args"])
            self.assertLessEqual(told[number], end(event))
            if number not in waited and event["name"].startswith("cuEventQuery"):
                unasked[executed[number]] += 1
        self.assertGreaterEqual(unasked["cuEventSynchronize"], 2, answered)

    def test_predictions_count_what_polls_wait_for(self):
        steps = 8
        path, _, done = self.trace("poll_loops", args=["event", str(steps)])
        self.assertLess(done.stats["blocking_round_trips"], 5)
        said = analyze(path, "--rtt", "30ms", "--rtt", "1000ms")["predictions"]
        predicted = {prediction["round_trip_ms"]: prediction["seconds"] for prediction in said}
        # Each of its steps waits for a reply, beside what blocks; and the session's beginning and end.
        trips = (predicted[1000] - predicted[30]) / 0.970
        self.assertGreaterEqual(trips, steps + 6 - 0.1)
        self.assertLessEqual(trips, steps + 6 + done.stats["blocking_round_trips"] + 0.1)

    def test_advice_is_about_the_programs_own_calls(self):
        """A wait that brings more than it was asked for is the wait that the program knows."""
        for args, call in (("training", "cuCtxSynchronize"), ("times", "cuEventSynchronize")):
            path, _, _ = self.trace("ahead", args=[args])
            said = analyze(path)
            self.assertTrue(any(row["sent"].startswith("wl") for row in said["waits"] if row["call"].startswith(call)), said["waits"])
            about = [advice for advice in said["advice"] if advice.startswith(call)]
            self.assertEqual(len(about), 1, said["advice"])
            self.assertIn("work in one stream needs no waiting in between", about[0])

    def test_predictions_are_no_less_than_their_round_trips(self):
        # A thread waits once at a time: where a program has one, its waits come one after the other, and before them the session's.
        for name in ["vector_add", "graphs"]:
            path, _, done = self.trace(name)
            trips = done.stats["blocking_round_trips"] + 6
            predicted = {rtt: analyze(path, "--rtt", f"{rtt}ms")["predictions"][0]["seconds"] for rtt in (0, 30, 1000)}
            for rtt, seconds in predicted.items():
                self.assertGreaterEqual(seconds, trips * rtt / 1000)
            self.assertLessEqual(predicted[1000] - predicted[0], (trips + 1) * 1.001)
            slow = analyze(path, "--rtt", "0", "--rate", "1Mbit")["predictions"][0]["seconds"]
            self.assertGreaterEqual(slow, (done.stats["payload_bytes_sent"] + done.stats["payload_bytes_received"]) * 8 / 1e6)

    def test_the_command_says_what_it_cannot_read(self):
        missing = subprocess.run([harness.WARPLINE, "analyze", self.path("nothing")], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("No such file", missing.stderr)
        other = subprocess.run([harness.WARPLINE, "analyze", __file__], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(other.returncode, 1)
        self.assertIn("no trace", other.stderr)
        path, _, _ = self.trace("vector_add")
        text = subprocess.run([harness.WARPLINE, "analyze", path], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(text.returncode, 0, text.stderr)
        for heading in ("Where the time goes", "Calls that wait (2 waits)", "What to change", "Over another link"):
            self.assertIn(heading, text.stdout)


if __name__ == "__main__":
    unittest.main()
