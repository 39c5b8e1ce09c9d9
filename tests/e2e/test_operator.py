"""Looking after a server that runs: gpu-server status and drain (C4)."""

import json
import os
import subprocess
import unittest

import harness
from test_pool import UNTIL_ERROR, VECTOR_ADD, PoolCase, closed_port


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(UNTIL_ERROR)


def command(*arguments, **options):
    return subprocess.run([harness.GPU_SERVER, *arguments], capture_output=True, text=True, timeout=60, **options)


class OperatorTest(PoolCase):
    def test_c4_status_tells_sessions_devices_and_who_uses_them(self):
        pool = self.pool(1, ["--max-sessions=5"])
        address = pool.addresses[0]
        empty = command("status", "--listen", address)
        self.assertEqual(empty.returncode, 0, empty.stderr)
        self.assertIn("Sessions 0 / 5", empty.stdout)
        program = self.start_working(pool.servers[0])
        done = command("status", "--json", "--listen", address)
        self.assertEqual(done.returncode, 0, done.stderr)
        status = json.loads(done.stdout)
        self.assertEqual((status["address"], status["pid"]), (address, pool.servers[0].process.pid))
        self.assertEqual((status["sessions"], status["max_sessions"], status["draining"]), (1, 5, False))
        self.assertEqual(status["driver"]["kind"], "software")
        self.assertEqual(len(status["devices"]), 1)
        self.assertGreater(status["devices"][0]["total_bytes"], 0)
        session, = status["running"]
        self.assertIn("until_error", session["program"])
        self.assertGreater(session["calls"], 0)
        os.kill(session["worker_pid"], 0)
        table = command("status", "--listen", address).stdout
        self.assertIn("Sessions 1 / 5", table)
        self.assertRegex(table, rf"{session['id'][:8]} +{session['tenant']} +\S*until_error")
        self.assertIsNone(program.poll())

    @unittest.skipIf(os.cpu_count() > 8, "a crowd of programs for more than 8 processors takes minutes to start")
    def test_b7_a_crowd_takes_turns_and_everybody_gets_on(self):
        crowd = 4 * os.cpu_count() + 4
        pool = self.pool(1, [])
        programs = []
        for _ in range(crowd):
            programs.append(harness.popen([UNTIL_ERROR.binary, "0"], "remote", pool.servers[0]))
            self.addCleanup(programs[-1].communicate)
            self.addCleanup(programs[-1].kill)
        for program in programs:
            self.assertEqual(program.stdout.readline(), "working\n")

        def status():
            done = command("status", "--json", "--listen", pool.addresses[0])
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)

        before = status()
        self.assertEqual(before["sessions"], crowd)

        def everybody_got_on():
            now = status()
            calls = {session["id"]: session["calls"] for session in before["running"]}
            got_on = all(session["calls"] > calls[session["id"]] + 100 for session in now["running"])
            return got_on and now["turns"]["taken"] and now["turns"]["given"] > 2 * crowd

        self.assertTrue(harness.until(everybody_got_on), status()["turns"])
        self.assertRegex(command("status", "--listen", pool.addresses[0]).stdout,
                         rf"Sessions take turns, {2 * os.cpu_count()} at a time")
        for program in programs[2:]:
            program.kill()
        self.assertTrue(harness.until(lambda: not status()["turns"]["taken"]), "no crowd, and still they take turns")
        self.assertEqual([program.poll() for program in programs[:2]], [None, None])

    def test_c4_drain_lets_sessions_end_in_peace_and_new_ones_go_elsewhere(self):
        pool = self.pool(2, ["--drain-seconds=0"] * 2)
        program = self.start_working(pool.servers[0])
        said = command("drain", "--listen", pool.addresses[0])
        self.assertEqual((said.returncode, said.stdout), (0, f"{pool.addresses[0]} is draining: 1 session is running\n"))
        again = command("drain", "--listen", pool.addresses[0])
        self.assertEqual((again.returncode, again.stdout), (0, f"{pool.addresses[0]} is draining already: 1 session is running\n"))
        before = pool.sessions()
        self.run_program(pool, WARPLINE_POLICY="in_order")
        self.assertEqual([after - earlier for after, earlier in zip(pool.sessions(), before)], [0, 1])
        waits = subprocess.Popen([harness.GPU_SERVER, "drain", "--wait", "--listen", pool.addresses[0]], stdout=subprocess.PIPE, text=True)
        self.addCleanup(waits.kill)
        self.assertIn("1 session is running", waits.stdout.readline())
        # It has been draining for three commands and a program: nobody has been ended.
        self.assertIsNone(program.poll())
        self.assertTrue(json.loads(command("status", "--json", "--listen", pool.addresses[0]).stdout)["draining"])
        self.assertIsNone(waits.poll(), "it did not wait")
        program.kill()
        self.assertEqual(waits.communicate(timeout=60)[0], f"{pool.addresses[0]} has ended\n")
        self.assertEqual(waits.returncode, 0)
        self.assertEqual(pool.servers[0].process.wait(timeout=20), 0)

    def test_c4_ready_says_whether_sessions_are_taken(self):
        pool = self.pool(1, ["--max-sessions=1", "--drain-seconds=0"])
        address = pool.addresses[0]
        ready = command("status", "--ready", "--listen", address)
        self.assertEqual((ready.returncode, ready.stdout, ready.stderr), (0, "", ""))
        self.start_working(pool.servers[0])
        self.assertEqual(command("status", "--ready", "--listen", address).returncode, 0, "full, and who comes is told so")
        self.assertEqual(command("drain", "--listen", address).returncode, 0)
        drains = command("status", "--ready", "--listen", address)
        self.assertEqual((drains.returncode, drains.stdout), (1, ""))
        self.assertIn(f"{address} takes no sessions: it drains, and 1 of its sessions", drains.stderr)
        told = command("status", "--ready", "--json", "--listen", address)
        self.assertEqual((told.returncode, json.loads(told.stdout)["ready"]), (1, False))
        self.assertEqual(command("status", "--listen", address).returncode, 0)
        self.assertEqual(command("status", "--ready", "--listen", f"127.0.0.1:{closed_port()}").returncode, 1)

    def test_c4_a_signal_gives_a_drain_its_time(self):
        pool = self.pool(1, ["--drain-seconds=0"])
        self.start_working(pool.servers[0])
        self.assertEqual(command("drain", "--listen", pool.addresses[0]).returncode, 0)
        self.assertEqual(pool.servers[0].stop(), 0)
        log = pool.servers[0].log_text()
        self.assertIn("may end until they end", log)
        self.assertIn("may end within 0 s", log)
        self.assertNotIn("stopping at once", log)

    def test_c4_where_no_server_runs(self):
        nobody = closed_port()
        for name in ("status", "drain"):
            done = command(name, "--listen", nobody)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{nobody}: no gpu-server runs there", done.stderr)
            self.assertEqual(command(name, "--listen", "127.0.0.1:0").returncode, 1)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_f1_another_user_is_no_operator(self):
        pool = self.pool(1)
        status = command("status", "--listen", pool.addresses[0], user=65534)
        self.assertEqual(status.returncode, 1, status.stdout)
        drain = command("drain", "--listen", pool.addresses[0], user=65534)
        self.assertEqual(drain.returncode, 1, drain.stdout)
        self.assertIn("refused peer=operator", pool.servers[0].log_text())
        self.run_program(pool)


if __name__ == "__main__":
    unittest.main()
