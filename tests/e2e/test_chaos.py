"""Connections that are cut, half closed, corrupted, slow, silent, and processes that are stopped or killed, bounded by events: at seeded
byte positions, over real TLS. A program then ends with CUDA error 46 or the right result, and the server is as it was (C1, C2, C3).
`scripts/chaos` is the long form."""

import os
import signal
import subprocess
import sys
import time
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos import campaign, plan, processes, runs  # noqa: E402
from chaos.checks import Rest  # noqa: E402
from chaos.expectation import LOST, Ending, Expectation, ending_of  # noqa: E402
from chaos.proxy import Proxy  # noqa: E402

SEED = 8
CUTS = 40
PROGRAMS = ["vector_add", "host_threads", "graph_launches", "callbacks"]  # copies, threads, graphs, host functions
VECTOR_ADD = harness.programs()["vector_add"]
UNTIL_ERROR = harness.programs()["until_error"]
LOST_PAGES = harness.programs()["lost_pages"]
# The shortest; a peer that is silent for eight of them is lost. As the proxy acknowledges what does not get through, such a peer
# looks stopped, for which there is a limit of its own.
HEARTBEAT = {"WARPLINE_HEARTBEAT_SECONDS": "1", "WARPLINE_HEARTBEAT_STOPPED_SECONDS": "8", "WARPLINE_GRACE": "2"}
LONGER_THAN_A_HEARTBEAT = 1.5


def setUpModule():
    for program in campaign.remote_programs(PROGRAMS) + [UNTIL_ERROR, LOST_PAGES]:
        harness.build_program(program)


class ChaosTest(unittest.TestCase):
    """One server for all; each test leaves it at rest."""

    @classmethod
    def setUpClass(cls):
        # Two attempts in a row may end with their patience: damaged handshakes that each side waits for.
        grace = {**HEARTBEAT, "WARPLINE_GRACE": "10"}
        cls.server = harness.Server(flags=["--workers-ready", str(campaign.READY)], environment=grace)
        cls.addClassCleanup(cls.server.__exit__)
        cls.rest = Rest(cls.server, campaign.READY, spare=os.cpu_count())

    def expect_rest(self, crashes=()):
        left = self.rest.left_behind(crashes=crashes)
        self.assertIsNone(left, f"{left}\n{self.server.log_text()}")

    def run_with(self, *faults, program=VECTOR_ADD, extra=None):
        """A program's run with faults, all of which must have happened."""
        run = runs.through_proxy(self.server, program, program.args[0], [plan.parse(f) for f in faults], SEED, extra)
        happened = [event.what for event in run.events]
        for fault in faults:
            self.assertIn(fault, happened, run)
        return run

    def expect_ending(self, ending, run, program=VECTOR_ADD):
        self.assertEqual(ending_of(program, run), ending, run)
        self.expect_rest()

    def test_c2_seeded_cuts_end_with_the_right_result(self):
        said = []
        cases = campaign.measure(self.server, campaign.remote_programs(PROGRAMS))
        running = campaign.Campaign(self.server, cases, SEED, [plan.CUT, plan.HALF_CLOSE, plan.CORRUPT], Expectation.RESUMED, say=said.append)
        counts = running.run(CUTS)
        self.assertEqual(counts.failures, [], "\n".join(said))
        self.assertGreaterEqual(counts.cuts(), CUTS)
        self.assertGreater(counts.calls, 0)
        self.assertIn("the session goes on over a connection", self.server.log_text())

    def test_c2_the_same_seed_is_the_same_plan(self):
        cases = [campaign.Case(VECTOR_ADD, (), {plan.UP: 800000, plan.DOWN: 400000})]
        plans = [[[str(f) for f in campaign.planned(cases, seed, number, plan.KINDS, Expectation.RESUMED)[1]] for number in range(50)]
                 for seed in (1, 1, 2)]
        self.assertEqual(plans[0], plans[1])
        self.assertNotEqual(plans[0], plans[2])
        for text in sum(plans[0], []):
            self.assertEqual(str(plan.parse(text)), text)

    def test_c2_a_reset_in_a_copy_to_the_server(self):
        self.expect_ending(Ending.RIGHT, self.run_with("cut:2:up:400000"))

    def test_c2_statistics_count_what_was_cut_and_sent_again(self):
        with Proxy(self.server, [plan.parse("cut:2:up:400000"), plan.parse("cut:3:up:300000")], SEED) as proxy:
            done = harness.run([VECTOR_ADD.binary, *VECTOR_ADD.args[0]], "remote", proxy)
        self.assertEqual(done.code, 0, done.stderr)
        self.assertEqual(done.stats["reconnects"], 2, done.stats)
        self.assertGreater(done.stats["frames_sent_again"], 0, done.stats)

    def test_c2_an_end_from_the_server_in_a_copy_to_the_program(self):
        self.expect_ending(Ending.RIGHT, self.run_with("half-close:2:down:200000"))

    def test_c2_an_end_from_the_program_while_it_works(self):
        self.expect_ending(Ending.RIGHT, self.run_with("half-close:2:up:400000"))

    def test_c2_corruption_is_noticed_in_both_directions(self):
        before = len(self.server.log_text())
        run = self.run_with("corrupt:2:up:400000:4")
        self.expect_ending(Ending.RIGHT, run)
        self.assertIn("bad record mac", self.server.log_text()[before:])
        run = self.run_with("corrupt:2:down:200000:128")
        self.expect_ending(Ending.RIGHT, run)
        self.assertIn("bad record mac", run.stderr)

    def test_c2_a_session_whose_name_is_damaged_on_the_way_has_not_gone(self):
        run = self.run_with("cut:2:up:400000", "corrupt:3:up:9:2", extra={"WARPLINE_BULK_LANES": "0"})  # in the preamble
        self.expect_ending(Ending.RIGHT, run)
        self.assertIn("was damaged on the way", self.server.log_text())

    def test_c2_a_damaged_end_of_a_handshake_is_no_refusal(self):
        run = self.run_with("corrupt:2:up:319:8")  # between the client's two messages of the first lane's handshake
        # What the server says of it comes before the program has sent more, or is lost with the connection that it closes then.
        self.assertRegex(run.stderr, r"client: \S+:\d+: [^;\n]+; beginning anew")
        self.assertNotIn("does not have the session's key", run.stderr)
        self.expect_ending(Ending.RIGHT, run)

    def test_c2_a_damaged_version_of_tls_is_no_refusal(self):
        run = self.run_with("corrupt:1:down:81:4")  # in the version that the server's hello names
        self.assertIn("does not speak TLS 1.3; beginning anew", run.stderr)
        self.expect_ending(Ending.RIGHT, run)

    def test_c1_what_is_slow_is_not_lost(self):
        run = self.run_with("delay:2:up:0:0.02", "throttle:2:up:4000:4e+06", "delay:2:down:0:0.02", "hold:2:down:4000:0.3",
                            "black-hole:2:up:500000:1.5")
        self.expect_ending(Ending.RIGHT, run)

    def test_c1_connections_that_arrive_in_another_order(self):
        with Proxy(self.server, [plan.parse("reorder:1:up:32:300"), plan.parse("reorder:2:down:3000:1000")], SEED) as proxy:
            both = [harness.popen([VECTOR_ADD.binary], "remote", proxy, start_new_session=True) for _ in range(2)]
            ends = [runs.finish(process, 60) for process in both]
            self.assertEqual([(code, out) for code, out, _ in ends], [(0, "vector addition: verified\n")] * 2, ends)
            self.assertGreaterEqual(proxy.count(), 2)
        self.expect_rest()


class AtWorkTest(unittest.TestCase):
    """A program at work through a proxy, and what happens to one of its processes or to its network."""

    def setUp(self):
        self.server = harness.Server(flags=["--workers-ready", str(campaign.READY)], environment=HEARTBEAT)
        self.addCleanup(self.server.__exit__)
        self.rest = Rest(self.server, campaign.READY, spare=1)
        self.proxy = Proxy(self.server, seed=SEED)
        self.addCleanup(self.proxy.__exit__)
        self.process = harness.popen([UNTIL_ERROR.binary], "remote", self.proxy, HEARTBEAT, start_new_session=True)
        self.addCleanup(self.end_process)
        self.assertEqual(self.process.stdout.readline(), "working\n")
        self.worker = processes.worker_of(self.server, self.process.pid)

    def end_process(self):
        self.process.kill()
        self.process.communicate()

    def test_c3_memory_of_the_programs_own_outlives_the_session_a7(self):
        with harness.popen([LOST_PAGES.binary], "remote", self.server, HEARTBEAT, stdin=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), "given\n")
            os.kill(processes.worker_of(self.server, process.pid), signal.SIGKILL)
            out, err = process.communicate("\n", timeout=30)
        self.assertEqual(process.returncode, 0, f"{out}{err}")
        self.assertEqual(err.count("stays as the program has it"), 1, err)

    def expect_work(self):
        """The program goes on: more of what it does passes."""
        before = {d: self.proxy.delivered(d) for d in plan.DIRECTIONS}
        self.assertTrue(self.proxy.wait_until(lambda p: all(p.delivered(d) > before[d] + 20000 for d in plan.DIRECTIONS), 30))
        self.assertIsNone(self.process.poll())

    def expect_error_46(self, within):
        code, out, err = runs.finish(self.process, within)
        self.assertEqual(code, 0, f"{out}{err}")
        self.assertRegex(out, r"^error 46 after [0-9.]+ s, then 46$")
        self.assertEqual(err.count(LOST), 1, err)

    def test_c1_a_stopped_program_is_not_lost(self):
        with processes.stopped(self.process.pid):
            time.sleep(LONGER_THAN_A_HEARTBEAT)  # the time is the subject
        self.expect_work()

    def test_c1_a_stopped_worker_is_not_lost(self):
        with processes.stopped(self.worker):
            time.sleep(LONGER_THAN_A_HEARTBEAT)  # the time is the subject
        self.expect_work()

    def test_c1_a_silent_network_is_not_lost_at_once(self):
        self.proxy.hold_network()
        time.sleep(LONGER_THAN_A_HEARTBEAT)  # the time is the subject
        self.proxy.release()
        self.expect_work()

    def test_c1_a_network_that_stays_silent_is_an_error_and_frees_the_worker(self):
        self.proxy.hold_network()
        self.expect_error_46(within=20)
        self.assertTrue(processes.gone([self.worker], 20), "the worker of a program that is not heard any more is left")
        self.assertIsNone(self.rest.left_behind())

    def test_c2_a_session_resumes_while_the_server_drains(self):
        self.server.process.terminate()
        processes.until(lambda: "draining: 1 sessions" in self.server.log_text(), 10)
        self.proxy.cut()
        self.expect_work()
        self.assertIn("the session goes on over a connection", self.server.log_text())
        self.end_process()
        self.assertEqual(self.server.process.wait(timeout=40), 0, self.server.log_text())

    def test_c3_a_killed_worker_is_error_46_within_5_s(self):
        os.kill(self.worker, signal.SIGKILL)
        self.expect_error_46(within=5)
        self.assertIsNone(self.rest.left_behind(crashes=[self.worker]))

    def test_c3_a_killed_supervisor_is_error_46_within_5_s(self):
        below = processes.children(self.server.process.pid)
        self.server.process.kill()
        self.expect_error_46(within=5)
        self.assertTrue(processes.gone(below, 10), f"workers outlive their supervisor: {[(w, processes.state(w)) for w in below]}")

    def test_c3_a_killed_program_frees_its_worker(self):
        self.process.kill()
        self.process.communicate()
        self.assertTrue(processes.gone([self.worker], 10))
        self.assertIsNone(self.rest.left_behind())


if __name__ == "__main__":
    unittest.main()
