"""CUPTI of several versions, each in a process of its own: tells its version, refuses to collect, and neither crashes nor hangs."""

import ctypes
import pathlib
import subprocess
import sys

from cases import case


def collects(path):
    """In a process of its own: exit code 0 if this CUPTI refuses politely."""
    driver = ctypes.CDLL("libcuda.so.1")
    library = ctypes.CDLL(path)
    version, context, subscriber = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert library.cuptiGetVersion(ctypes.byref(version)) == 0 and version.value > 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(lambda *_: None)
    assert library.cuptiSubscribe(ctypes.byref(subscriber), callback, None) != 0
    assert library.cuptiActivityEnable(3) != 0  # kernels
    library.cuptiFinalize()


if len(sys.argv) > 1:
    collects(sys.argv[1])
    sys.exit(0)

for found in sorted(p for folder in sys.path for p in pathlib.Path(folder).glob("nvidia/*/lib/libcupti.so.1?")):
    def cupti():
        done = subprocess.run([sys.executable, __file__, str(found)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (found, done.returncode, done.stderr)

    cupti.__name__ = "cupti_" + found.name.rsplit(".", 1)[1]
    case(cupti)
