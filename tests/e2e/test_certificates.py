"""Certificates that are renewed while the server runs (F1): it reads them again by itself, however they come into place, keeps those of
before as long as the new ones are not usable, and no session notices."""

import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

import harness
from test_failure import working
from test_security import TO_DOOR

VECTOR_ADD = harness.programs()["vector_add"]
FILES = ("server.crt", "server.key", "ca.crt")
RENEWED = "the certificates have changed, and are those of all"
NOT_YET = "the certificates have changed, and cannot be used: "


def setUpModule():
    harness.build_program(VECTOR_ADD)
    harness.build_program(harness.programs()["until_error"])


class CertificatesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-certificates-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.tenant = harness.development_certificates(self.folder / "authority")
        self.mounted = self.folder / "mounted"

    def start(self):
        server = harness.Server(certificates=self.mounted).__enter__()
        self.addCleanup(server.__exit__)
        server.certificates = self.tenant  # those of its programs, which stay
        return server

    @staticmethod
    def copy(source, target):
        """What a server reads."""
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copy(source / name, target)

    def renewed(self, name):
        """A folder with another certificate and key, of the same authority."""
        folder = self.folder / name
        folder.mkdir()
        for file in ("ca.crt", "ca.key"):
            shutil.copy(self.tenant / file, folder)
        return harness.development_certificates(folder)

    def seen(self, server):
        """The certificate that the server shows to a tenant, as PEM; TLS begins behind the greeting."""
        context = ssl.create_default_context(cafile=self.tenant / "ca.crt")
        context.load_cert_chain(self.tenant / "tenant.crt", self.tenant / "tenant.key")
        host, port = server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=60) as plain:
            plain.sendall(TO_DOOR)
            with context.wrap_socket(plain, server_hostname=host) as secured:
                return ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True))

    def shows(self, server, folder):
        text = (pathlib.Path(folder) / "server.crt").read_text()
        wanted = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN"):]))
        self.assertTrue(harness.until(lambda: self.seen(server) == wanted), server.log_text())

    def told(self, server, text, times=1):
        self.assertTrue(harness.until(lambda: server.log_text().count(text) >= times), server.log_text())

    def program_runs(self, server):
        done = harness.run([VECTOR_ADD.binary], "remote", server)
        self.assertEqual(done.code, 0, done.stderr + server.log_text())

    def plain_files(self):
        self.copy(self.tenant, self.mounted)
        return self.start()

    def test_f1_files_that_are_written_over(self):
        server = self.plain_files()
        self.shows(server, self.tenant)
        witness = working(server)
        self.addCleanup(witness.communicate)
        self.addCleanup(witness.kill)
        new = self.renewed("new")
        self.copy(new, self.mounted)
        self.shows(server, new)
        self.told(server, RENEWED)
        self.program_runs(server)
        self.assertIsNone(witness.poll(), "a session ended")
        self.assertNotIn(" error ", server.log_text())

    def test_f1_files_that_others_take_the_place_of(self):
        server = self.plain_files()
        for name in ("new", "newer"):  # the watches follow
            new = self.renewed(name)
            for file in FILES:
                shutil.copy(new / file, self.mounted / f".{file}")
                os.rename(self.mounted / f".{file}", self.mounted / file)
            self.shows(server, new)
        self.program_runs(server)

    def test_f1_secrets_of_kubernetes(self):
        # A volume of a Secret: the files are links through ..data, which is swapped for one to a new folder; the old folder goes.
        self.mounted.mkdir()
        self.put_secret("..2026_11_01", self.tenant)
        for name in FILES:
            (self.mounted / name).symlink_to(f"..data/{name}")
        server = self.start()
        self.shows(server, self.tenant)
        before = "..2026_11_01"
        for day, name in (("..2026_11_02", "new"), ("..2026_11_03", "newer")):
            new = self.renewed(name)
            self.put_secret(day, new)
            shutil.rmtree(self.mounted / before)
            before = day
            self.shows(server, new)
        self.assertNotIn(NOT_YET, server.log_text(), "the swap is one step: nothing is half-way")
        self.program_runs(server)

    def put_secret(self, day, source):
        self.copy(source, self.mounted / day)
        (self.mounted / "..data_tmp").symlink_to(day)
        os.rename(self.mounted / "..data_tmp", self.mounted / "..data")

    def test_f1_links_of_certbot(self):
        # live/NAME/*.pem are links to archive/NAME/*N.pem, and are made anew.
        archive, live = self.folder / "archive", self.mounted
        live.mkdir()
        self.copy(self.tenant, archive / "1")
        for name in FILES:
            (live / name).symlink_to(os.path.relpath(archive / "1" / name, live))
        server = self.start()
        new = self.renewed("new")
        self.copy(new, archive / "2")
        for name in FILES:
            (live / name).unlink()
            (live / name).symlink_to(os.path.relpath(archive / "2" / name, live))
        self.shows(server, new)
        self.program_runs(server)

    def test_f1_a_folder_that_another_takes_the_place_of(self):
        server = self.plain_files()
        new = self.renewed("new")
        os.rename(self.mounted, self.folder / "old")
        os.rename(new, self.mounted)
        self.shows(server, self.mounted)
        self.program_runs(server)

    def test_f1_half_of_them_is_no_outage(self):
        server = self.plain_files()
        new = self.renewed("new")
        shutil.copy(new / "server.key", self.mounted)
        self.told(server, NOT_YET)
        self.shows(server, self.tenant)
        self.program_runs(server)
        self.assertEqual((server.log_text().count(NOT_YET), server.log_text().count(" error ")), (1, 0), "one line, and no error")
        shutil.copy(new / "server.crt", self.mounted)
        self.told(server, RENEWED)
        self.shows(server, new)
        # A file that is gone is half-way, too.
        (self.mounted / "server.crt").unlink()
        self.told(server, NOT_YET, times=2)
        self.shows(server, new)
        self.program_runs(server)

    def test_f1_another_authority_lets_others_in(self):
        server = self.plain_files()
        other = harness.development_certificates(self.folder / "other")
        both = (self.tenant / "ca.crt").read_text() + (other / "ca.crt").read_text()
        stranger = harness.environment_for("remote", server)
        stranger.update(WARPLINE_CERT=str(other / "tenant.crt"), WARPLINE_KEY=str(other / "tenant.key"))
        self.assertNotEqual(subprocess.run([VECTOR_ADD.binary], env=stranger, capture_output=True, timeout=60).returncode, 0)
        (self.mounted / "ca.crt").write_text(both)
        self.told(server, RENEWED)
        done = subprocess.run([VECTOR_ADD.binary], env=stranger, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr + server.log_text())

    def test_f1_what_others_do_beside_them_is_nothing(self):
        server = self.plain_files()
        (self.mounted / "notes").write_text("nothing of ours")
        (self.mounted / "notes").rename(self.mounted / "more notes")
        shutil.copy(self.tenant / "server.crt", self.mounted / "copy.crt")
        new = self.renewed("new")
        self.copy(new, self.mounted)
        self.shows(server, new)
        self.assertEqual(server.log_text().count(RENEWED), 1, server.log_text())


if __name__ == "__main__":
    unittest.main()
