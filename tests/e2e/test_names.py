"""Servers that DNS names: dns: and srv: entries (C4)."""

import os
import subprocess
import sys
import time
import unittest

import harness
from dns_server import A, SRV, DnsServer, address, service
from test_heartbeat import PATIENT, Patient
from test_pool import VECTOR_ADD, Pool, PoolCase, closed_port

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos.proxy import Proxy  # noqa: E402


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(PATIENT)


def free_port():
    return int(closed_port().rpartition(":")[2])


class NamesCase(PoolCase):
    def dns(self, records=None, **options):
        server = DnsServer(records, **options)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def one_port(self):
        """Two servers at one port of two addresses."""
        port = free_port()
        pool = Pool(2, listen=[f"127.0.0.1:{port}", f"127.0.0.2:{port}"])
        self.addCleanup(pool.close)
        return pool, port

    def warpline(self, pool, *arguments, **variables):
        return subprocess.run([harness.WARPLINE, *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **pool.environment(), **variables})


class DnsTest(NamesCase):
    def test_c4_each_address_is_a_server(self):
        pool, port = self.one_port()
        dns = self.dns({("localhost", A): [address("127.0.0.1"), address("127.0.0.2")]})
        self.start_working(pool.servers[0])
        before = pool.sessions()
        pool.addresses = [f"dns:localhost:{port}"]
        self.run_program(pool, WARPLINE_DNS=dns.where)
        self.assertEqual([after - earlier for after, earlier in zip(pool.sessions(), before)], [0, 1])
        shown = self.warpline(pool, "servers", WARPLINE_DNS=dns.where)
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        for line, server in zip(shown.stdout.splitlines()[1:], ["127.0.0.1", "127.0.0.2"]):
            self.assertRegex(line, rf"^localhost\[{server}\]:{port} .* / 64 ")
        for command in (["ping", "-c", "1"], ["devices"]):
            done = self.warpline(pool, *command, WARPLINE_DNS=dns.where)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"localhost[127.0.0.2]:{port}", done.stdout)

    def test_f1_the_certificate_is_for_the_name_and_not_for_what_dns_says(self):
        """The server's certificate has 127.0.0.1 in it, and DNS says that the name is there: anybody can make it say so."""
        pool = self.pool(1)
        port = pool.addresses[0].rpartition(":")[2]
        dns = self.dns({("gpus.example", A): [address("127.0.0.1")],
                        ("_warpline._tcp.example", SRV): [service(0, 0, int(port), "gpus.example")]})
        for entry in (f"dns:gpus.example:{port}", "srv:_warpline._tcp.example"):
            pool.addresses = [entry]
            done = harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_DNS": dns.where})
            self.assertNotEqual(done.code, 0)
            self.assertIn("the server's certificate ('localhost') is not for 'gpus.example'", done.stderr)
        self.assertEqual(pool.sessions(), [0])
        # Who writes an address means it.
        pool.addresses = [f"dns:127.0.0.1:{port}"]
        self.run_program(pool, WARPLINE_DNS=dns.where)

    def test_c4_services_have_priorities_and_ports(self):
        pool = self.pool(2)
        ports = [int(each.rpartition(":")[2]) for each in pool.addresses]
        dns = self.dns({("_warpline._tcp.example", SRV): [service(20, 0, ports[1], "localhost"), service(10, 0, ports[0], "localhost")],
                        ("localhost", A): [address("127.0.0.1")]})
        self.start_working(pool.servers[0])
        before = pool.sessions()
        pool.addresses = ["srv:_warpline._tcp.example"]
        for expected in ([1, 0], [2, 0]):
            self.run_program(pool, WARPLINE_DNS=dns.where)
            self.assertEqual([after - earlier for after, earlier in zip(pool.sessions(), before)], expected,
                             "the first priority goes before the fewest sessions")
        dns.records[("_warpline._tcp.example", SRV)][1] = service(10, 0, free_port(), "localhost")
        self.run_program(pool, WARPLINE_DNS=dns.where)
        self.assertEqual([after - earlier for after, earlier in zip(pool.sessions(), before)], [2, 1])

    def test_c4_weights_of_services(self):
        pool = self.pool(2)
        ports = [int(each.rpartition(":")[2]) for each in pool.addresses]
        dns = self.dns({("_warpline._tcp.example", SRV): [service(0, 10, ports[0], "localhost"), service(0, 30, ports[1], "localhost")],
                        ("localhost", A): [address("127.0.0.1")]})
        self.start_working(pool.servers[1])
        pool.addresses = ["srv:_warpline._tcp.example"]
        self.run_program(pool, WARPLINE_POLICY="weighted", WARPLINE_DNS=dns.where)
        self.assertEqual(pool.sessions(), [0, 2])

    def test_c4_who_waits_asks_again_when_the_answer_is_old(self):
        pool = self.pool(2, ["--max-sessions=1"])
        ports = [int(each.rpartition(":")[2]) for each in pool.addresses]
        records = {("_warpline._tcp.example", SRV): [service(0, 0, ports[0], "localhost")], ("localhost", A): [address("127.0.0.1")]}
        dns = self.dns(records, ttl=1)
        self.start_working(pool.servers[0])
        pool.addresses = ["srv:_warpline._tcp.example"]
        waits = harness.popen([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_WAIT": "120", "WARPLINE_DNS": dns.where})
        self.addCleanup(waits.kill)
        said = harness.read_until(waits.stderr, "waiting for a place")
        dns.records[("_warpline._tcp.example", SRV)] = [service(0, 0, ports[1], "localhost")]
        out, err = waits.communicate(timeout=60)
        self.assertEqual(waits.returncode, 0, said + out + err)
        self.assertEqual(pool.sessions(), [1, 1])

    def test_c4_a_dns_server_that_is_silent_holds_nobody_up(self):
        pool = self.pool(1)
        dns = self.dns(silent=True)
        pool.addresses.append("srv:_warpline._tcp.example")
        began = time.monotonic()
        self.run_program(pool, WARPLINE_DNS=dns.where, WARPLINE_CONNECT_TIMEOUT="2")
        self.assertLess(time.monotonic() - began, 30, "a DNS server that is silent was waited for")
        self.assertEqual(dns.asked[0], ("_warpline._tcp.example", SRV))
        pool.addresses.pop(0)
        done = harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_DNS": dns.where, "WARPLINE_CONNECT_TIMEOUT": "2"})
        self.assertNotEqual(done.code, 0)
        self.assertIn("srv:_warpline._tcp.example: no DNS server answers in time", done.stderr)

    def test_c2_a_session_comes_back_to_the_address_that_it_began_at(self):
        pool = self.pool(1)
        dns = self.dns({("localhost", A): [address("127.0.0.1")]}, ttl=0)
        with Proxy(pool.servers[0]) as proxy:
            pool.addresses = [f"dns:localhost:{proxy.address.rpartition(':')[2]}"]
            program = Patient(pool, WARPLINE_DNS=dns.where)
            self.addCleanup(program.process.communicate)
            self.addCleanup(program.process.kill)
            program.ask()
            program.answer()
            asked = len(dns.asked)
            # By now the name is somebody else.
            dns.records[("localhost", A)] = [address("127.0.0.9")]
            proxy.cut()
            program.read_error_until(r"connected to localhost\[127\.0\.0\.1\]:\d+ again")
            program.ask()
            program.answer()
            self.assertEqual(len(dns.asked), asked)
        self.assertEqual(pool.sessions(), [1])

    def test_c4_what_is_no_name_is_told(self):
        pool = self.pool(1)
        dns = self.dns({("other.example", A): [address("127.0.0.1")]})
        pool.addresses.append("dns:gpus.example:14833")
        self.run_program(pool, WARPLINE_DNS=dns.where)
        shown = self.warpline(pool, "servers", WARPLINE_DNS=dns.where)
        self.assertEqual(shown.returncode, 1)
        self.assertRegex(shown.stdout.splitlines()[2], r"^dns:gpus\.example:14833 +DNS knows no such name")
        pool.addresses.pop(0)
        for entries, reason in ((["dns:gpus.example:14833"], "dns:gpus.example:14833: DNS knows no such name"),
                                (["srv:gpus.example"], "an SRV record is written as srv:_warpline._tcp.NAME")):
            pool.addresses = entries
            done = harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_DNS": dns.where})
            self.assertNotEqual(done.code, 0)
            self.assertIn(reason, done.stderr)
        pool.addresses = ["dns:gpus.example"]
        done = harness.run([VECTOR_ADD.binary], "remote", pool, extra={"WARPLINE_DNS": "dns.example"})
        self.assertIn("'dns.example' is no DNS server's address", done.stderr)


if __name__ == "__main__":
    unittest.main()
