"""The package `warpline` without a build: what it makes of its parameters, and of what the command says."""

import os
import pathlib
import pickle
import sys
import tempfile
import threading
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "src"))

import warpline  # noqa: E402
from warpline import _connect, _files, _process, _remote, _settings, _survey, _worker  # noqa: E402


@warpline.remote(servers="a:1", timeout=3)
def double(number):
    """Twice as much."""
    return 2 * number


class SettingsTest(unittest.TestCase):
    def test_lists(self):
        self.assertEqual(_settings.listed("servers", "a:1, b:2"), "a:1, b:2")
        self.assertEqual(_settings.listed("devices", 0), "0")
        self.assertEqual(_settings.listed("devices", [1, "GPU-12"]), "1,GPU-12")
        for nothing in [], "", [""], ["a", " "]:
            with self.assertRaises(ValueError):
                _settings.listed("servers", nothing)
        for other in [None], [True], [1.5]:
            with self.assertRaises(TypeError):
                _settings.listed("devices", other)

    def test_values_of_options(self):
        self.assertEqual(_settings.text_of("compression", True), "true")
        self.assertEqual(_settings.text_of("wait_seconds", 60), "60")
        self.assertEqual(_settings.text_of("disable", ["spin", "shm"]), "spin,shm")
        self.assertEqual(_settings.text_of("trace", pathlib.Path("/t.json")), "/t.json")
        self.assertEqual(_settings.text_of("trace", pathlib.Path("t.json")), f"{pathlib.Path.cwd()}/t.json")
        with self.assertRaises(TypeError):
            _settings.text_of("wait_seconds", 1.5)

    def test_variables(self):
        with tempfile.NamedTemporaryFile() as file:
            given = _settings.Settings(servers=["a:1", "b:2"], devices=[0, 2], cert=file.name)
            self.assertEqual(
                given.named(), {"WARPLINE_SERVERS": "a:1,b:2", "CUDA_VISIBLE_DEVICES": "0,2", "WARPLINE_CERT": file.name}
            )
        self.assertEqual(_settings.Settings().named(), {})
        with self.assertRaisesRegex(FileNotFoundError, "key: there is no file /no/such"):
            _settings.Settings(key="/no/such").named()
        self.assertEqual(_settings.Settings(memory="8GiB").named(), {"WARPLINE_MEMORY": "8GiB"})
        self.assertEqual(_settings.Settings(memory=1 << 30).named(), {"WARPLINE_MEMORY": "1073741824"})
        for wrong in (True, 1.5, ["8GiB"]):
            with self.assertRaisesRegex(TypeError, "memory: "):
                _settings.Settings(memory=wrong).named()

    def test_options_by_the_names_that_the_client_has(self):
        known = {"wait_seconds": "WARPLINE_WAIT", "servers": "WARPLINE_SERVERS"}
        with mock.patch.object(_settings, "read_options", return_value=(known, "")):
            given = _settings.Settings(servers="a:1", options={"wait_seconds": 5})
            self.assertEqual(given.variables({}), {"WARPLINE_SERVERS": "a:1", "WARPLINE_WAIT": "5"})
            with self.assertRaisesRegex(TypeError, "'wait_secs'; did you mean 'wait_seconds'"):
                _settings.Settings(options={"wait_secs": 5}).variables({})
            with self.assertRaisesRegex(TypeError, "twice"):
                _settings.Settings(servers="a:1", options={"servers": "b:1"}).variables({})
        with mock.patch.object(_settings, "read_options", return_value=(known, "WARPLINE_WAIT: no number")):
            with self.assertRaisesRegex(ValueError, "no number"):
                _settings.Settings().variables({})


class ProcessTest(unittest.TestCase):
    def test_libraries_in_a_map(self):
        maps = """\
55d0c9a00000-55d0c9a01000 r--p 00000000 08:01 17 /usr/bin/python3.11
7f0000000000-7f0000001000 r--p 00000000 08:01 18 /usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06
7f0000001000-7f0000002000 r-xp 00001000 08:01 18 /usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06
7f0000003000-7f0000004000 r-xp 00001000 08:01 19 /opt/with space/libnvidia-ml.so.1 (deleted)
7f0000005000-7f0000006000 r-xp 00001000 08:01 20 /usr/lib/libcudart.so.13
7f0000007000-7f0000008000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0 [stack]
"""
        self.assertEqual(
            _process.mapped_libraries(maps),
            ["/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06", "/opt/with space/libnvidia-ml.so.1 (deleted)"],
        )

    def test_nothing_is_loaded_here(self):
        self.assertIsNone(_process.loaded())

    def test_a_package_without_its_files(self):
        with self.assertRaisesRegex(warpline.WarplineError, "build_wheel"):
            _files.command()


class ConnectTest(unittest.TestCase):
    def test_the_folder_of_the_libraries_comes_first_and_once(self):
        with mock.patch.object(_files, "cuda_library", return_value=pathlib.Path("/w/libcuda.so.1")):
            self.assertEqual(_connect.library_path({}), "/w")
            self.assertEqual(_connect.library_path({"LD_LIBRARY_PATH": "/a:/w:/b:"}), "/w:/a:/b")

    def test_closing_puts_back_what_nobody_has_changed(self):
        with mock.patch.dict(os.environ, {"A": "a", "B": "b"}, clear=True):
            before = {"A": None, "B": "old", "C": "c"}
            os.environ["C"] = "ours"
            connection = _connect.Connection(pathlib.Path("/w/libcuda.so.1"), before)
            self.assertEqual(dict(connection.environment), {"A": "a", "B": "b", "C": "ours"})
            os.environ["C"] = "theirs"
            connection.close()
            self.assertEqual(dict(os.environ), {"B": "old", "C": "theirs"})
            self.assertEqual(dict(connection.environment), {})
            connection.close()


class SurveyTest(unittest.TestCase):
    def test_devices(self):
        device = {
            "name": "GPU", "uuid": "GPU-1", "total_bytes": 8, "free_bytes": 4, "compute_capability": [8, 9], "multiprocessors": 2
        }  # fmt: skip
        said = [
            {"server": "a:1", "reached": True, "driver_version": 13050, "round_trip_us": None, "devices": [device, device]},
            {"server": "b:1", "reached": False, "problem": "unreachable: CUDA error 100"},
        ]
        found = _survey.devices_of(said)
        self.assertEqual(
            [(d.server, d.index, d.compute_capability, d.round_trip_us) for d in found],
            [("a:1", 0, (8, 9), None), ("a:1", 1, (8, 9), None)],
        )

    def test_servers(self):
        self.assertEqual(
            _survey.server_of({"server": "a:1", "answered": False, "problem": "refused"}), warpline.Server("a:1", "refused")
        )
        said = {
            "server": "a:1", "answered": True, "name": "n", "version": "1", "sessions": 1, "max_sessions": 2, "workers_ready": 3,
            "draining": False, "device_count": 1, "driver": "nvidia", "driver_version": 13010, "round_trip_ms": 0.5,
            "devices": [{"utilisation_percent": None, "total_bytes": None, "free_bytes": None}],
        }  # fmt: skip
        server = _survey.server_of(said)
        self.assertTrue(server.answered)
        self.assertEqual((server.driver_version, server.devices), ((13, 1), (warpline.DeviceLoad(None, None, None),)))


class RemoteTest(unittest.TestCase):
    def test_it_looks_like_the_function(self):
        self.assertEqual((double.__name__, double.__doc__, double.__wrapped__(2)), ("double", "Twice as much.", 4))
        self.assertIs(pickle.loads(pickle.dumps(double)), double)
        self.assertIs(_worker.find_function(double.__module__, "double"), double.__wrapped__)

    def test_what_no_other_process_finds(self):
        def inner():
            pass

        for function in inner, lambda: 0:
            with self.assertRaisesRegex(TypeError, "import"):
                warpline.remote(function)
        with self.assertRaises((TypeError, RuntimeError)) as raised:  # the former in the latter before Python 3.12
            type("Class", (), {"method": double})
        self.assertIsInstance(raised.exception.__cause__ or raised.exception, TypeError)
        with self.assertRaisesRegex(TypeError, "memory: "):
            warpline.remote(memory=1.5)

    def test_answers(self):
        def answer_of(error):
            try:
                raise error
            except BaseException as raised:
                return _worker._answer_of(raised, raised.__traceback__)

        with self.assertRaisesRegex(KeyError, "k") as caught:
            _remote._result_of(answer_of(KeyError("k")))
        self.assertIn("raise error", str(caught.exception.__cause__))
        with self.assertRaisesRegex(warpline.RemoteError, "SystemExit: 3"):
            _remote._result_of(answer_of(SystemExit(3)))
        unpicklable = ValueError(threading.Lock())
        with self.assertRaisesRegex(warpline.RemoteError, "ValueError"):
            _remote._result_of(answer_of(unpicklable))
        self.assertEqual(_remote._result_of(_worker.Answer(pickle.dumps([1]))), [1])

    def test_reading_of_answers(self):
        long = b"x" * (1 << 18)
        for written, wanted in (long, long), (long[:-1], b""), (b"", b""), (None, None):
            read_end, write_end = os.pipe()
            writer = 0
            if written is not None and (writer := os.fork()) == 0:
                with os.fdopen(write_end, "wb") as sink:
                    sink.write((_worker.LENGTH.pack(len(long)) if written else b"") + written)
                os._exit(0)
            if writer:
                os.close(write_end)
            deadline = 0.0 if written is None else None
            self.assertEqual(_remote._read_answer(read_end, None, deadline), wanted)
            os.close(read_end)
            if writer:
                os.waitpid(writer, 0)
            else:
                os.close(write_end)

    def test_how_processes_end(self):
        self.assertEqual(_remote._ending_of(125), "ended with exit code 125")
        self.assertEqual(_remote._ending_of(-9), "was killed by SIGKILL")
        self.assertEqual(_remote._ending_of(-123), "was killed by signal 123")


if __name__ == "__main__":
    unittest.main()
