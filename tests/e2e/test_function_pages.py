"""Functions that streams call, with memory that kernels use as well: how many round trips they take (A7, B2; docs/host-memory.md)."""

import os
import unittest

import harness

PROGRAM = harness.programs()["function_pages"]
PROFILES = "generous", "strict"


def setUpModule():
    harness.build_program(PROGRAM)


class FunctionPagesTest(unittest.TestCase):
    def run_program(self, what, profile):
        with harness.Server(environment={"SOFTGPU_PROFILE": profile}) as server:
            done = harness.run([PROGRAM.binary, what], "remote", server)
            said = f"{profile}: exit code {done.code}\n{done.stdout}{done.stderr}{server.log_text()}"
        self.assertEqual(done.code, 0, said)
        self.assertIn("verified", done.stdout, said)
        return done.stats

    def check(self, what, most, late=None, most_bytes=None):
        """@param most  round trips, but for accesses to what had been given back because of the time; `late` says how many there are."""
        for profile in PROFILES:
            with self.subTest(profile):
                stats = self.run_program(what, profile)
                if "WARPLINE_DISABLE" in os.environ:
                    continue
                pages = stats["shared_pages"]
                self.assertLessEqual(stats["blocking_round_trips"] - pages["late"], most, stats)
                if late is not None:
                    self.assertEqual(pages["late"], late, stats)
                if most_bytes is not None:
                    self.assertLessEqual(pages["fetched_bytes"], most_bytes, stats)

    # Four of each are for what is on the device at the end, and for waits. 4 MiB are fetched with four or five questions, by where
    # they begin, and the server is asked once whether it has what was written.
    def test_b2_all_of_managed_memory(self):
        self.check("managed", most=11, late=0, most_bytes=5 << 20)

    def test_b2_all_of_page_locked_memory(self):
        self.check("mapped", most=11, late=0, most_bytes=5 << 20)

    def test_b2_a_function_that_takes_its_time_keeps_what_it_has(self):
        self.check("slow", most=11, late=0, most_bytes=5 << 20)

    def test_b2_a_node_of_a_graph_beside_which_others_may_run(self):
        self.check("graph", most=22)

    def test_b2_functions_and_kernels_in_turn(self):
        self.check("rounds", most=62, late=0, most_bytes=41 << 20)

    def test_b2_one_allocation_after_the_other(self):
        # Three for each of 16 are what is on the device.
        self.check("pieces", most=75, late=0, most_bytes=9 << 20)

    def test_b2_places_far_apart(self):
        self.check("sparse", most=50, late=0, most_bytes=3 << 20)

    def test_b2_many_functions_that_do_little(self):
        # What each looks at, and what it has written; and again where a launch has come between.
        self.check("many", most=5 * 300 // 2)

    def test_a7_b2_beside_a_kernel_that_answers(self):
        self.check("beside", most=70)

    def test_a7_b2_a_kernel_comes_while_the_function_runs(self):
        self.check("company", most=45)


if __name__ == "__main__":
    unittest.main()
