"""The description of the CUDA driver itself."""

import re
import subprocess
import unittest

from toy import CUDA_INCLUDE, REAL_API, ROOT

import generate

NEVER_WAITS = """
    cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2
    cuMemcpyDtoDAsync_v2 cuMemsetD8Async cuMemsetD32_v2 cuEventRecord cuStreamWaitEvent cuStreamCreate cuEventCreate
    cuStreamDestroy_v2 cuEventDestroy_v2 cuMemFree_v2 cuMemFreeAsync cuMemAllocAsync cuGraphLaunch cuModuleUnload
    cuModuleLoadData cuLibraryLoadData cuLibraryGetKernel cuMemAlloc_v2 cuKernelSetAttribute
""".split()

STAYS_ON_THE_CLIENT = """
    cuInit cuDeviceGetAttribute cuDeviceGetName cuDeviceTotalMem_v2 cuDeviceGetUuid_v2 cuCtxGetCurrent cuCtxSetCurrent
    cuDevicePrimaryCtxRetain cuGetExportTable cuGetProcAddress_v2 cuStreamIsCapturing cuPointerGetAttributes
""".split()


def git(*arguments: str) -> str:
    """What git prints, or nothing if there is no git or no repository."""
    try:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


class RealDescription(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.api = generate.read(REAL_API, CUDA_INCLUDE)

    def test_every_symbol_has_one_owner(self):
        names = {s.symbol for s in self.api.symbols}
        self.assertEqual(len(names), 637 + 51 + 35)
        for refused, body in ((self.api.client_refused, "exported"), (self.api.softgpu_refused, "softgpu")):
            owned = [r.symbol for r in refused] + [s for a in self.api.areas for c in getattr(a, body) for s in c.symbols]
            self.assertEqual(sorted(owned), sorted(names))

    def test_twins_belong_to_calls_that_use_a_stream(self):
        for call in self.api.calls:
            for twin in call.twins:
                if twin.suffix == "ptds":
                    self.assertFalse(any(p.is_stream for p in call.params), call.name)

    def test_what_creates_or_enqueues_does_not_wait(self):
        """What programs call in their inner loops (issue 2: launches, asynchronous copies, fills, records, create, free)."""
        for name in NEVER_WAITS:
            self.assertFalse(self.api.call(name).waits, name)

    def test_what_the_runtime_asks_at_start_stays_on_the_client(self):
        for name in STAYS_ON_THE_CLIENT:
            self.assertFalse(self.api.call(name).travels, name)

    def test_only_calls_that_may_wait_on_the_server_are_parked(self):
        for call in self.api.calls:
            if call.parks:
                self.assertIn(call.cls, ("blocking", "internal"), call.name)
        for name in ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuMemcpyDtoH_v2"):
            self.assertTrue(self.api.call(name).parks, name)

    def test_what_gives_the_order_free_says_so(self):
        """Of a call with a hook on the server `parks` tells readers what the hook does; it must not tell them wrong."""
        shared = "".join((ROOT / "server/hooks" / name).read_text() for name in ("common.h", "waits.h"))
        for path in sorted((ROOT / "server/hooks").glob("*.cpp")):
            text = path.read_text()
            bodies = re.findall(r"^\w[^;{}()]*?(\w+)\(([^{}]*\{\n.*?)^}", shared + text, re.MULTILINE | re.DOTALL)
            frees, helpers = r"release_order\(", {name: body for name, body in bodies if not name.startswith("hook_")}
            while more := [name for name, body in helpers.items() if re.search(frees, body)]:  # and what calls such a one
                frees = "|".join([frees, *(rf"\b{name}\(" for name in more)])
                for name in more:
                    del helpers[name]
            for name, body in re.findall(r"^CUresult hook_server_(\w+)\((.*?)^}", text, re.MULTILINE | re.DOTALL):
                call = self.api.call(name)
                if call.waits and not call.may_wait:
                    self.assertEqual(call.parks, re.search(frees, body) is not None, name)

    def test_no_hook_is_written_that_no_entry_names(self):
        """The other way round, a hook that is named and not written, is a link error."""
        for side in ("client", "server"):
            named = {c.name for c in self.api.calls if getattr(c, f"hook_{side}")}
            for path in sorted((ROOT / side / "hooks").glob("*.cpp")):
                written = set(re.findall(rf"^CUresult hook_{side}_(\w+)\(", path.read_text(), re.MULTILINE))
                self.assertEqual(written - named, set(), path)

    def test_lock_was_only_ever_appended_to(self):
        commits = git("log", "-n", "100", "--format=%H", "--", "cuda/api/ids.lock").split()
        if not commits:
            self.skipTest("no history at hand")
        newer = (REAL_API / "ids.lock").read_text()
        for commit in commits:
            older = git("show", f"{commit}:cuda/api/ids.lock")
            self.assertTrue(newer.startswith(older), f"lines of ids.lock changed after {commit}")
            newer = older


if __name__ == "__main__":
    unittest.main()
