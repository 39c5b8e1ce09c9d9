"""Programs of other CUDA versions on drivers of other versions (A1, A2, A11): a small part of the matrix, and of that, with a sanitized
build, the oldest driver; scripts/test --all runs all of it."""

import unittest

import harness
import toolkits
import versions


class VersionsTest(unittest.TestCase):
    servers = {}

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers.values():
            server.__exit__()

    def check(self, row, driver):
        try:
            command = versions.build(row)
        except toolkits.Unavailable as problem:
            self.skipTest(f"what {row.title} is built with cannot be fetched: {problem}")
        if driver not in self.servers:
            self.servers[driver] = harness.Server(environment={"SOFTGPU_DRIVER_VERSION": driver})
        for mode in versions.MODES:
            _, problem = versions.run_cell(row, command, driver, mode, self.servers[driver])
            self.assertIsNone(problem, problem)


class NewerHeaderTest(unittest.TestCase):
    """What cuda/abi/newer_cuda.h declares for builds with older headers, the newest header declares in the same way (A2)."""

    def test_prototypes(self):
        try:
            include = toolkits.runtime("13.5") / "include"
        except toolkits.Unavailable as problem:
            self.skipTest(f"the newest header cannot be fetched: {problem}")
        text = (harness.ROOT / "cuda/abi/newer_cuda.h").read_text()
        self.assertEqual(versions.conflicts(text, include), "")
        wrong = text.replace('extern "C" {', 'extern "C" {\nint cuFuncGetParamCount(int);')
        self.assertIn("cuFuncGetParamCount", versions.conflicts(wrong, include), "a declaration that differs must not compile")


def add_tests():
    rows, drivers = versions.small_part()
    for row in rows:
        for driver in drivers[:1] if harness.sanitizer_runtime() else drivers:
            name = "_".join(["test", row.kind, row.version, row.code.split()[0], "on", driver]).replace(".", "_")
            setattr(VersionsTest, name, lambda self, r=row, d=driver: self.check(r, d))


add_tests()

if __name__ == "__main__":
    unittest.main()
