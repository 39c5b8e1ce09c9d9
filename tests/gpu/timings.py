"""How long a driver takes for what Warpline's server does: each function measures one thing and returns it, in microseconds or
milliseconds by its name."""

import ctypes
import pathlib
import subprocess
import sys
from ctypes import byref, c_float, c_uint64, c_void_p

from device import BLOCK_BYTES, HOST_FUNCTION, KERNELS, Access, Failed, Location, NotHere, Timer, once_given_back


def mapping(driver, mib):
    """Memory by hand: create, reserve, map, access, unmap, release."""
    driver.context()
    if not driver.attribute(102):
        raise NotHere("no virtual memory management (attribute 102 is 0)")
    size, found, handle, address = int(mib) << 20, {}, c_uint64(), c_uint64()
    access = Access(Location(1, 0), 3)

    def timed(name, *call):
        timer = Timer()
        driver.call(*call)
        found[f"{name}_ms"] = timer.ms

    timed("create", "cuMemCreate", byref(handle), size, byref(driver.properties()), 0)
    timed("reserve", "cuMemAddressReserve", byref(address), size, BLOCK_BYTES, 0, 0)
    timed("map", "cuMemMap", address, size, 0, handle, 0)
    timed("access", "cuMemSetAccess", address, size, byref(access), 1)
    timed("unmap", "cuMemUnmap", address, size)
    timed("release", "cuMemRelease", handle)
    timed("free_address", "cuMemAddressFree", address, size)
    return found


def host_memory(driver, mib):
    """Page-locked memory: allocate and free."""
    driver.context()
    timer = Timer()
    host = driver.made(c_void_p, "cuMemHostAlloc", int(mib) << 20, 0)
    found = {"allocate_ms": timer.ms}
    timer = Timer()
    driver.call("cuMemFreeHost", c_void_p(host))
    return {**found, "free_ms": timer.ms}


def host_function_gap(driver):
    """What a host function between two kernels costs the stream, by the device's own clock: the best of 20."""
    driver.context()
    functions, stream = driver.kernels(), driver.stream()
    function = HOST_FUNCTION(lambda _: None)

    def between(with_function):
        best = float("inf")
        for _ in range(20):
            begin, end, ms = driver.event(), driver.event(), c_float()
            driver.launch(functions["nothing"], stream)
            driver.call("cuEventRecord", begin, stream)
            if with_function:
                driver.call("cuLaunchHostFunc", stream, function, None)
            driver.call("cuEventRecord", end, stream)
            driver.call("cuStreamSynchronize", stream)
            driver.call("cuEventElapsedTime", byref(ms), begin, end)
            best = min(best, ms.value)
        return best * 1e3

    without = between(False)
    return {"without_us": round(without, 1), "with_us": round(between(True), 1)}


def start(driver):
    """cuInit is behind us: the first context, the first module, the first kernel."""
    timer = Timer()
    driver.context()
    found = {"context_ms": timer.ms}
    timer = Timer()
    functions = driver.kernels()
    found["load_and_compile_ms"] = timer.ms
    timer = Timer()
    driver.launch(functions["nothing"], None)
    driver.call("cuCtxSynchronize")
    found["first_launch_ms"] = timer.ms
    timer = Timer()
    driver.made(c_void_p, "cuModuleLoadData", KERNELS)
    return {**found, "load_again_ms": timer.ms}


def memory_of_a_process(driver):
    """Device memory that another process takes with its context: what each warm worker costs."""
    driver.context()
    before = driver.free_bytes()
    code = ("from device import Driver\nd = Driver()\nd.context()\nd.kernels()\nprint('there', flush=True)\ninput()\n")
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             cwd=pathlib.Path(__file__).parent)
    said = other.stdout.readline().strip()
    taken = before - driver.free_bytes()
    other.communicate("\n")
    if said != "there":
        raise Failed("a context in a second process", other.returncode)
    return {"taken_bytes": taken, "given_back": driver.free_bytes() >= before}


def near_full_memory(driver):
    """Is the end of memory reported by the allocation that meets it, and is what is freed there again at once?"""
    driver.context()
    block, blocks, code = max(BLOCK_BYTES, driver.free_bytes() // 16 & ~(BLOCK_BYTES - 1)), [], 0
    while code == 0 and len(blocks) < 64:
        address = c_uint64()
        code = driver.code("cuMemAlloc_v2", byref(address), block)
        if code == 0:
            blocks.append(address.value)
    found = {"result": code, "enough_were_had": len(blocks) >= 8}
    if blocks:
        driver.call("cuMemFree_v2", blocks.pop())
        address = c_uint64()
        found["after_a_free"] = driver.code("cuMemAlloc_v2", byref(address), block)
        if found["after_a_free"] == 0:
            blocks.append(address.value)
        data = ctypes.create_string_buffer(b"\x05" * 4096, 4096)
        found["last_block_holds"] = driver.code("cuMemcpyHtoD_v2", blocks[-1] + block - 4096, data, 4096)
    for address in blocks:
        driver.call("cuMemFree_v2", address)
    driver.call("cuCtxSynchronize")
    return found


def fault_with_copies_under_way(driver):
    """A kernel faults while megabytes of pageable memory are on their way behind it: does everything that waits end?"""
    once_given_back(driver.context)
    functions, stream = driver.kernels(), driver.stream()
    memory, host = once_given_back(lambda: driver.memory(16 << 20)), ctypes.create_string_buffer(16 << 20)
    driver.launch(functions["fault"], stream)
    codes = [driver.code("cuMemcpyHtoDAsync_v2", memory, host, 4 << 20, stream) for _ in range(4)]
    return {"copies_refused_otherwise": sorted({code for code in codes if code not in (0, 700)}), "synchronise": driver.code("cuStreamSynchronize", stream),
            "free": driver.code("cuMemFree_v2", memory)}
