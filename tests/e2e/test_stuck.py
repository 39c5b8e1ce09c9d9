"""A run that does not end is reported with what it, its server and their children are doing, and none of them stays behind."""

import subprocess
import sys
import unittest

import harness


class StuckTest(unittest.TestCase):
    def test_what_does_not_end_says_where_it_stands(self):
        with harness.Server() as server:
            process = subprocess.Popen([sys.executable, "-uc", "import signal; print('begun'); signal.pause()"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            with self.assertRaises(TimeoutError) as stuck:
                harness.finish(process, 0.5, server)
            said = str(stuck.exception)
            self.assertRegex(said, r"begun\n")
            for pid, command in ((process.pid, "pause"), (server.process.pid, "gpu-server")):
                self.assertRegex(said, rf"process {pid}: .*{command}.*\n(Thread|  \d+ )")
            self.assertIsNotNone(process.poll())


if __name__ == "__main__":
    unittest.main()
