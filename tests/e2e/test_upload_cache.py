"""What a tenant has uploaded before is not sent again over a slow link, survives the server where there is a folder for it, and is
nobody else's (B7)."""

import json
import pathlib
import re
import subprocess
import sys
import types
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from chaos import plan  # noqa: E402
from chaos.proxy import Proxy  # noqa: E402

UPLOADS = harness.programs()["uploads"]
MIB = 1 << 20
MEBIBYTES = 48
BYTES = MEBIBYTES * MIB
MODULE = 24  # mebibytes
PATIENCE = 120
# 60 MB/s for each connection of a program: the door, the command lane, bulk lanes, and those that take the place of a lost one.
SLOW = [plan.parse(f"throttle:{number}:up:0:6e7") for number in range(1, 9)]
# Bytes that a session sends although they are there: its calls, hashes, and what leaves while the first chunk is asked for.
ALL_THE_SAME = 4 * MIB
ON_ALL_LANES = {"WARPLINE_BULK_LANES_AFTER": "0"}


def setUpModule():
    harness.build_program(UPLOADS)


class UploadCacheTest(unittest.TestCase):
    def server(self, *flags):
        server = harness.Server(flags=flags, environment={"WARPLINE_UPLOAD_CACHE": "256MiB"})
        self.addCleanup(server.__exit__)
        return server

    def upload(self, server, *words, faults=(), mebibytes=MEBIBYTES, piece=MEBIBYTES << 10, seed=1, **extra):
        """The statistics of a program that uploads; it compares what has arrived."""
        with Proxy(server, [*SLOW, *(plan.parse(fault) for fault in faults)]) as proxy:
            done = harness.run([UPLOADS.binary, mebibytes, piece, seed, *words], "remote", proxy, extra={"WARPLINE_COMPRESS": "none", **extra},
                               seconds=PATIENCE)
        self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}\n{server.log_text()}")
        self.assertIn("verified", done.stdout)
        return done.stats

    def status(self, server, reached):
        """What the server says of its cache, once that is so."""
        def now():
            done = subprocess.run([harness.GPU_SERVER, "status", "--json", "--listen", server.address], capture_output=True, text=True, check=True)
            cache = json.loads(done.stdout)["upload_cache"]
            return cache if reached(cache) else None
        cache = harness.until(now)
        self.assertTrue(cache, server.log_text())
        return cache

    def is_kept(self, server, byte_count):
        return self.status(server, lambda cache: cache["memory_bytes"] == byte_count)

    def test_b7_a_second_run_sends_hashes(self):
        for extra in ({}, ON_ALL_LANES):
            with self.subTest(extra=extra):
                server = self.server()
                first = self.upload(server, **extra)
                self.assertGreater(first["bytes_sent"], BYTES)
                self.assertEqual(first["upload_cache"]["found_bytes"], 0)
                self.is_kept(server, BYTES)
                second = self.upload(server, **extra)
                found = second["upload_cache"]["found_bytes"]
                self.assertGreater(found, BYTES - ALL_THE_SAME, second)
                self.assertEqual(second["upload_cache"]["hit_rate"], 1)
                self.assertLess(second["bytes_sent"], BYTES - found + ALL_THE_SAME // 8)
                self.status(server, lambda cache: cache["hits"] == second["upload_cache"]["found_chunks"])
                self.assertTrue(harness.until(lambda: f" found_bytes={found} " in server.log_text()), server.log_text())

    def test_b7_asynchronous_copies_in_pieces(self):
        server = self.server()
        piece = 20000  # KiB: the last chunk of each is a short one
        self.upload(server, "async", piece=piece)
        self.is_kept(server, BYTES)
        second = self.upload(server, "async", piece=piece)
        # What goes into buffers first may make the link look fast, when the first answer comes: then the first piece is sent.
        self.assertGreaterEqual(second["upload_cache"]["found_bytes"], BYTES - (piece << 10), second)
        self.assertLess(second["bytes_sent"], (piece << 10) + ALL_THE_SAME)

    def test_b7_modules_too(self):
        server = self.server()
        first = self.upload(server, "module", mebibytes=MODULE)
        self.assertGreater(first["bytes_sent"], MODULE * MIB)
        self.status(server, lambda cache: cache["chunks"] >= MODULE)
        second = self.upload(server, "module", mebibytes=MODULE)
        # The module is what the program sends first: while the server has other things to do, the link may look fast.
        self.assertGreater(second["upload_cache"]["found_bytes"], MODULE // 2 * MIB, second)
        self.assertLess(second["bytes_sent"], MODULE // 2 * MIB)

    def test_b7_what_has_changed_is_sent(self):
        server = self.server()
        self.upload(server)
        self.is_kept(server, BYTES)
        second = self.upload(server, "change", 20)
        self.assertGreater(second["upload_cache"]["found_bytes"], BYTES - MIB - ALL_THE_SAME)
        self.assertLessEqual(second["upload_cache"]["found_bytes"], BYTES - MIB)

    def test_b7_within_a_session_too(self):
        """Nothing is known of the tenant at its start: one chunk in many is asked for, and found in the second round."""
        stats = self.upload(self.server(), "twice", piece=16 << 10)
        self.assertGreater(stats["upload_cache"]["sampled_chunks"], 0)
        self.assertGreaterEqual(stats["upload_cache"]["found_bytes"], BYTES // 3, stats)

    def test_b7_a_connection_is_lost_while_offers_are_under_way(self):
        server = self.server()
        self.upload(server)
        self.is_kept(server, BYTES)
        # Behind the first mebibyte, which leaves while its hash is asked for, come offers of 300 bytes each; behind the 3,500 bytes
        # of the handshake, answers of 100.
        for faults in (["cut:2:up:1053500"], ["cut:2:up:1054600"], ["cut:2:down:4000"], ["cut:2:down:4700", "cut:3:down:900"]):
            with self.subTest(faults=faults):
                stats = self.upload(server, "change", 30, faults=faults, WARPLINE_BULK_LANES="0")
                self.assertGreaterEqual(stats["reconnects"], 1, stats)
                self.assertGreater(stats["upload_cache"]["found_bytes"], BYTES - MIB - ALL_THE_SAME, stats)

    def test_b7_nobody_learns_what_another_tenant_has_uploaded(self):
        server = self.server()
        subprocess.run([harness.ROOT / "certs" / "enrol-tenant", "--dir", server.certificates, "other"], check=True, capture_output=True, text=True)
        self.upload(server)
        self.is_kept(server, BYTES)
        other = types.SimpleNamespace(address=server.address, log_text=server.log_text, environment=lambda: {
            **server.environment(), "WARPLINE_CERT": str(server.certificates / "tenants/other/tenant.crt"),
            "WARPLINE_KEY": str(server.certificates / "tenants/other/tenant.key")})
        first = self.upload(other)
        self.assertEqual(first["upload_cache"]["found_bytes"], 0)
        self.assertGreater(first["bytes_sent"], BYTES)
        self.assertEqual(self.is_kept(server, 2 * BYTES)["tenants"], 2)
        self.assertGreater(self.upload(other)["upload_cache"]["found_bytes"], BYTES - ALL_THE_SAME)

    def test_b7_it_can_be_switched_off_on_either_side(self):
        server = self.server()
        self.upload(server)
        self.is_kept(server, BYTES)
        without = self.upload(server, WARPLINE_DISABLE="cache")
        self.assertEqual(without["upload_cache"]["asked_chunks"], 0)
        self.assertGreater(without["bytes_sent"], BYTES)
        for flags in (["--upload-cache=0"], ["--disable=cache"]):
            off = self.server(*flags)
            self.assertEqual(self.upload(off, "twice")["upload_cache"]["asked_chunks"], 0)
            done = subprocess.run([harness.GPU_SERVER, "status", "--json", "--listen", off.address], capture_output=True, text=True, check=True)
            self.assertIsNone(json.loads(done.stdout)["upload_cache"])

    def test_b7_the_disk_outlives_the_server_and_is_not_believed(self):
        folder = harness.tempfile.mkdtemp(prefix="warpline-cache-")
        self.addCleanup(harness.shutil.rmtree, folder)
        flags = [f"--upload-cache-folder={folder}"]
        with harness.Server(flags=["--upload-cache=256MiB", *flags]) as server:
            certificates = self.copy_of(server.certificates)
            self.upload(server)
            self.status(server, lambda cache: cache["disk_bytes"] == BYTES)
        chunks = [path for path in pathlib.Path(folder).rglob("*") if path.is_file() and len(path.name) == 64]
        self.assertEqual(len(chunks), MEBIBYTES)
        wanted = self.written(folder).read_bytes()[30 * MIB:31 * MIB]
        damaged = next(path for path in chunks if path.read_bytes() == wanted)
        damaged.write_bytes(wanted[:500_000] + bytes([wanted[500_000] ^ 1]) + wanted[500_001:])
        with harness.Server(certificates=certificates, flags=["--upload-cache=256MiB", *flags]) as server:
            stats = self.upload(server)
            self.assertGreater(stats["upload_cache"]["found_bytes"], BYTES - MIB - ALL_THE_SAME)
            self.status(server, lambda cache: cache["damaged"] == 1 and cache["hits_from_disk"] >= MEBIBYTES - 6)
            self.assertIn("a chunk is not what it was", server.log_text())

    @staticmethod
    def written(folder):
        """What upload() uploads, in a file."""
        file = pathlib.Path(folder) / "weights"
        subprocess.run([UPLOADS.binary, str(MEBIBYTES), "0", "1", "write", file], check=True)
        return file

    def copy_of(self, certificates):
        folder = pathlib.Path(harness.tempfile.mkdtemp(prefix="warpline-certs-"))
        self.addCleanup(harness.shutil.rmtree, folder)
        return pathlib.Path(harness.shutil.copytree(certificates, folder / "certs"))

    def test_b7_a_list_makes_the_first_run_a_second_one(self):
        folder = pathlib.Path(harness.tempfile.mkdtemp(prefix="warpline-list-"))
        self.addCleanup(harness.shutil.rmtree, folder)
        self.written(folder)
        half = BYTES // 2
        (folder / "list").write_text(f"# what the model loads\ndeveloper\t{folder / 'weights'}\t0\t{half}\n"
                                     f"developer\t{folder / 'weights'}\t{half}\t{half}\ndeveloper\t/nowhere\nnonsense\n")
        server = self.server(f"--upload-cache-list={folder / 'list'}")
        self.is_kept(server, BYTES)
        self.assertIn("/nowhere cannot be read", server.log_text())
        self.assertRegex(server.log_text(), r"list:5: a line is TENANT")
        stats = self.upload(server, piece=(MEBIBYTES << 10) // 2)
        self.assertGreater(stats["upload_cache"]["found_bytes"], BYTES - ALL_THE_SAME)

    def test_b7_a_keeper_that_dies_costs_nothing_but_what_it_kept(self):
        server = self.server()
        self.upload(server)
        self.is_kept(server, BYTES)
        keeper = subprocess.run(["pgrep", "-P", str(server.process.pid), "-f", "keeper-of="], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(keeper), 1)
        subprocess.run(["kill", "-KILL", *keeper], check=True)
        stats = self.upload(server)
        self.assertEqual(stats["upload_cache"]["found_bytes"], 0)
        self.assertRegex(server.log_text(), "the keeper of uploads ended")


if __name__ == "__main__":
    unittest.main()
