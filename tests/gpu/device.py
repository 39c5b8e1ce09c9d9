"""A CUDA driver by ctypes, for what scripts/test-gpu asks: the library of WARPLINE_PROBE_DRIVER, found, called, and its errors as
exceptions. Needs nothing but Python 3.9 and libc."""

import ctypes
import os
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY = 0, 1, 2
BLOCK_BYTES = 2 << 20
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)

# spin: waits until a word of page-locked memory is not zero. store: writes a word. fault: writes where nothing is.
KERNELS = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 flag) {
    .reg .u64 %address;
    .reg .u32 %word;
    .reg .pred %again;
    ld.param.u64 %address, [flag];
wait:
    ld.volatile.global.u32 %word, [%address];
    setp.eq.u32 %again, %word, 0;
    @%again bra wait;
    ret;
}
.visible .entry store(.param .u64 to, .param .u32 value) {
    .reg .u64 %address;
    .reg .u32 %word;
    ld.param.u64 %address, [to];
    ld.param.u32 %word, [value];
    st.global.u32 [%address], %word;
    ret;
}
.visible .entry fault() {
    .reg .u64 %address;
    .reg .u32 %word;
    mov.u64 %address, 16;
    mov.u32 %word, 1;
    st.global.u32 [%address], %word;
    ret;
}
.visible .entry nothing() { ret; }
"""


class Failed(Exception):
    """A call that had to succeed did not."""

    def __init__(self, call, code):
        super().__init__(f"{call} gave {code}")
        self.code = code


class NotHere(Exception):
    """What the question is about is not there: a second device, a kind of memory. The words say what."""


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationProperties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handle_types", c_int), ("location", Location), ("win32", c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


def word(value):
    """An integer argument as the 64-bit word in which it travels; what is no integer stays as it is."""
    return c_uint64(value & (2**64 - 1)) if isinstance(value, int) else value


def once_given_back(action, seconds=5):
    """What the action gives, which needs memory: that of processes that have just ended comes back a moment later."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except Failed as failed:
            if failed.code != OUT_OF_MEMORY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


class Driver:
    """A driver after cuInit. code() calls and returns the CUresult, call() raises Failed unless it is success."""

    def __init__(self, initialise=True):
        self.library = ctypes.CDLL(os.environ.get("WARPLINE_PROBE_DRIVER", "libcuda.so.1"))
        if initialise:
            self.call("cuInit", 0)

    def has(self, name):
        return hasattr(self.library, name)

    def code(self, name, *arguments):
        if not self.has(name):
            raise NotHere(f"the driver has no {name}")
        return getattr(self.library, name)(*map(word, arguments))

    def call(self, name, *arguments):
        code = self.code(name, *arguments)
        if code != SUCCESS:
            raise Failed(name, code)

    def made(self, kind, name, *arguments):
        """What a call writes through its first parameter."""
        out = kind()
        self.call(name, byref(out), *arguments)
        return out.value

    def attribute(self, attribute, device=0):
        return self.made(c_int, "cuDeviceGetAttribute", attribute, device)

    def devices(self):
        return self.made(c_int, "cuDeviceGetCount")

    def context(self, device=0):
        """The primary context of a device, made current."""
        context = self.made(c_void_p, "cuDevicePrimaryCtxRetain", device)
        self.call("cuCtxSetCurrent", c_void_p(context))
        return context

    def stream(self):
        return c_void_p(self.made(c_void_p, "cuStreamCreate", 1))

    def event(self):
        return c_void_p(self.made(c_void_p, "cuEventCreate", 0))

    def memory(self, size):
        return self.made(c_uint64, "cuMemAlloc_v2", size)

    def kernels(self):
        """The functions of KERNELS, by name."""
        module = c_void_p(self.made(c_void_p, "cuModuleLoadData", KERNELS))
        names = ("spin", "store", "fault", "nothing")
        return {name: c_void_p(self.made(c_void_p, "cuModuleGetFunction", module, name.encode())) for name in names}

    def launch_code(self, function, stream, *values):
        """Launches one thread; the values are ctypes' objects."""
        parameters = (c_void_p * max(1, len(values)))(*[ctypes.cast(ctypes.pointer(v), c_void_p) for v in values])
        return self.code("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    def launch(self, function, stream, *values):
        code = self.launch_code(function, stream, *values)
        if code != SUCCESS:
            raise Failed("cuLaunchKernel", code)

    def free_bytes(self):
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def properties(self, device=0):
        properties = AllocationProperties()
        properties.type, properties.location = 1, Location(1, device)
        return properties

    def mapped(self, size, device=0):
        """Memory of a device made, mapped and open to it by hand: (address, handle)."""
        if not self.attribute(102, device):
            raise NotHere("no virtual memory management (attribute 102 is 0)")
        handle = self.made(c_uint64, "cuMemCreate", size, byref(self.properties(device)), 0)
        address = self.made(c_uint64, "cuMemAddressReserve", size, 0, 0, 0)
        self.call("cuMemMap", address, size, 0, handle, 0)
        self.call("cuMemSetAccess", address, size, byref(Access(Location(1, device), 3)), 1)
        return address, handle


class Gate:
    """A stream that is busy until open() is called: a kernel waits in it for a word of page-locked memory."""

    def __init__(self, driver, stream, functions):
        self.driver = driver
        self.host = driver.made(c_void_p, "cuMemHostAlloc", 4096, 2)  # 2: mapped for the device
        self.flag = ctypes.cast(self.host, ctypes.POINTER(c_uint))
        self.flag[0] = 0
        address = driver.made(c_uint64, "cuMemHostGetDevicePointer_v2", c_void_p(self.host), 0)
        driver.launch(functions["spin"], stream, c_uint64(address))

    def open(self):
        self.flag[0] = 1


class Timer:
    """Milliseconds since it was made."""

    def __init__(self):
        self.began = time.monotonic()

    @property
    def ms(self):
        return round((time.monotonic() - self.began) * 1e3, 3)
