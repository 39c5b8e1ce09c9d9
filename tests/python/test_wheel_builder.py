"""The wheel's maker without a build: versions that files ask for, the words of the wheel, and its bytes."""

import base64
import email
import hashlib
import os
import pathlib
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from wheel_builder import archive, backend, binaries, metadata  # noqa: E402


class BinariesTest(unittest.TestCase):
    def test_the_newest_version_counts_as_numbers_do(self):
        said = "Name: GLIBC_2.9  Flags: none\n Name: GLIBC_2.28\n Name: GLIBC_2.3.4\n GLIBCXX_3.4.30 GLIBC_PRIVATE"
        self.assertEqual(binaries.glibc_of(said), (2, 28))
        self.assertEqual(binaries.glibc_of(""), (2, 17))

    def test_tags(self):
        with mock.patch.object(binaries, "glibc_needed", return_value=((2, 28), "bin/warpline")):
            self.assertEqual(binaries.platform_for(pathlib.Path(), "2.28"), "manylinux_2_28_x86_64")
            self.assertEqual(binaries.platform_for(pathlib.Path(), "2.31"), "manylinux_2_31_x86_64")
            self.assertEqual(binaries.platform_for(pathlib.Path(), "needed"), "manylinux_2_28_x86_64")
            with self.assertRaisesRegex(binaries.BuildError, "bin/warpline needs glibc 2.28"):
                binaries.platform_for(pathlib.Path(), "2.9")

    def test_no_version_has_what_is_private(self):
        said = " 0x01 (NEEDED)  Shared library: [libc.so.6]\n Name: GLIBC_2.2.5\n Name: GLIBC_PRIVATE\n"
        with mock.patch.object(binaries, "_output_of", return_value=said):
            self.assertEqual(binaries.platform_for(pathlib.Path(), "needed"), "linux_x86_64")
            with self.assertRaisesRegex(binaries.BuildError, "bin/warpline uses what glibc keeps to itself"):
                binaries.platform_for(pathlib.Path(), "2.36")

    def test_foreign_libraries_are_refused(self):
        said = " 0x01 (NEEDED)  Shared library: [libc.so.6]\n 0x01 (NEEDED)  Shared library: [libssl.so.3]\n"
        with (
            mock.patch.object(binaries, "_output_of", return_value=said),
            self.assertRaisesRegex(binaries.BuildError, "libssl.so.3"),
        ):
            binaries.glibc_needed(pathlib.Path())

    def test_a_build_that_is_not_there(self):
        with self.assertRaisesRegex(binaries.BuildError, "is not there"):
            binaries.read(pathlib.Path("/no/such/build"))


class MetadataTest(unittest.TestCase):
    def test_pyproject_is_understood_whole(self):
        project = metadata.read_project(backend.PYTHON)
        said = email.message_from_string(metadata.metadata(project, "1.2.3", "# Title\n\nText, ä.\n", ["LICENSE", "third-party/a"]))
        self.assertEqual(said.get_all("License-File"), ["LICENSE", "third-party/a"])
        self.assertEqual((said["Name"], said["Version"], said["License-Expression"]), ("warpline", "1.2.3", "Apache-2.0"))
        self.assertEqual(said.get_all("Classifier"), project["classifiers"])
        self.assertIn("Text, ä.", said.get_payload())
        self.assertEqual(metadata.entry_points(project), "[console_scripts]\nwarpline = warpline.__main__:main\n")
        self.assertTrue((backend.PYTHON / project["readme"]).is_file())

    def test_what_it_does_not_know_is_no_secret(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(f"{folder}/pyproject.toml").write_text('[project]\nname = "x"\nmaintainers = []\n')
            with self.assertRaisesRegex(ValueError, "maintainers"):
                metadata.read_project(pathlib.Path(folder))


class ArchiveTest(unittest.TestCase):
    MEMBERS = (archive.Member("p/program", b"\x7fELF" * 1000, executable=True), archive.Member("p/text", b"text"))

    def write(self, folder, epoch):
        path = pathlib.Path(folder) / "w.whl"
        with mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": epoch} if epoch else {}):
            archive.write(path, [*self.MEMBERS, archive.record(list(self.MEMBERS), "p.dist-info/RECORD")])
        return path

    def test_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.write(folder, "1767225600").read_bytes()
            self.assertEqual(self.write(folder, "1767225600").read_bytes(), first)
            self.assertNotEqual(self.write(folder, "1767312000").read_bytes(), first)
            self.write(folder, "0")  # before the first time that the format has

    def test_modes_and_hashes(self):
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(self.write(folder, "")) as written:
            modes = {entry.filename: entry.external_attr >> 16 for entry in written.infolist()}
            self.assertEqual((modes["p/program"], modes["p/text"]), (0o100755, 0o100644))
            digest = base64.urlsafe_b64encode(hashlib.sha256(b"text").digest()).decode().rstrip("=")
            lines = written.read("p.dist-info/RECORD").decode().splitlines()
            self.assertEqual(lines[1:], [f"p/text,sha256={digest},4", "p.dist-info/RECORD,,"])


if __name__ == "__main__":
    unittest.main()
