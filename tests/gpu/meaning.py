"""What NVIDIA's documentation leaves open and Warpline depends on: each function asks a driver one question and returns the answers.
The names of values that are times or sizes end in _ms, _us or _bytes; those are reported and never compared."""

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from device import BLOCK_BYTES, HOST_FUNCTION, KERNELS, SUCCESS, Gate, NotHere, Timer

RELAXED = 2
PATIENCE_S = 1.0  # what has not happened by then is held up by something else


def versions(driver):
    """Version, devices and the attributes on which the server's ways depend."""
    found = {"driver_version": driver.made(c_int, "cuDriverGetVersion"), "devices": driver.devices()}
    for device in range(driver.devices()):
        name = ctypes.create_string_buffer(200)
        driver.call("cuDeviceGetName", name, 200, device)
        found[f"device{device}"] = {
            "name": name.value.decode(errors="replace"), "mig": "MIG" in name.value.decode(errors="replace"),
            "compute_capability": f"{driver.attribute(75, device)}.{driver.attribute(76, device)}",
            "compute_mode": driver.attribute(20, device), "vmm": driver.attribute(102, device), "rdma_with_vmm": driver.attribute(110, device),
            "mps": value_or_code(driver, 133, device), "memory_bytes": driver.made(c_size_t, "cuDeviceTotalMem_v2", device),
            "peers": [driver.made(c_int, "cuDeviceCanAccessPeer", device, other) if other != device else 1
                      for other in range(driver.devices())]}
    return found


def value_or_code(driver, attribute, device):
    out = c_int()
    code = driver.code("cuDeviceGetAttribute", byref(out), attribute, device)
    return out.value if code == SUCCESS else f"error {code}"


def address_hint(driver, gib, hint):
    """Is a hint for a reservation followed, and how long does it take?"""
    driver.context()
    address, timer = c_uint64(), Timer()
    code = driver.code("cuMemAddressReserve", byref(address), int(gib) << 30, BLOCK_BYTES, int(hint, 0), 0)
    return {"result": code, "followed": code == SUCCESS and address.value == int(hint, 0), "reserve_ms": timer.ms,
            "address_bytes": address.value}


def in_relaxed_capture(driver, what):
    """What a call that may synchronise does while another stream is captured in relaxed mode."""
    driver.context()
    memory = driver.memory(BLOCK_BYTES)
    mapped = driver.mapped(BLOCK_BYTES)[0] if what == "unmap" else 0
    stream = driver.stream()
    driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
    driver.call("cuMemsetD8Async", memory, 0, 16, stream)
    calls = {"synchronise": ("cuCtxSynchronize",), "free": ("cuMemFree_v2", memory), "unmap": ("cuMemUnmap", mapped, BLOCK_BYTES)}
    result, graph = driver.code(*calls[what]), c_void_p()
    return {"result": result, "end_of_capture": driver.code("cuStreamEndCapture", stream, byref(graph))}


def host_function_after_fault(driver):
    """Is a host function called that stands behind a kernel that faults?"""
    driver.context()
    functions, stream, called = driver.kernels(), driver.stream(), threading.Event()
    function = HOST_FUNCTION(lambda _: called.set())
    driver.launch(functions["fault"], stream)
    driver.code("cuLaunchHostFunc", stream, function, None)  # refused where the fault is known already
    error = driver.code("cuStreamSynchronize", stream)
    return {"synchronise": error, "called": called.wait(PATIENCE_S),
            "next_launch": driver.launch_code(functions["nothing"], stream)}


def host_functions_of_two_streams(driver):
    """Does a host function that blocks hold up that of another stream?"""
    driver.context()
    first, second, began, go, ran = driver.stream(), driver.stream(), threading.Event(), threading.Event(), threading.Event()
    block, run = HOST_FUNCTION(lambda _: began.set() or go.wait()), HOST_FUNCTION(lambda _: ran.set())
    driver.call("cuLaunchHostFunc", first, block, None)
    began.wait()  # between streams there is no order: the other's could be called first
    driver.call("cuLaunchHostFunc", second, run, None)
    beside = ran.wait(PATIENCE_S)
    go.set()
    driver.call("cuCtxSynchronize")
    return {"run_beside_each_other": beside, "run_in_the_end": ran.is_set()}


def progress_of(step, limit):
    """Runs step() up to `limit` times in a thread; returns how often it had run when it first made no progress, and the thread."""
    count = [0]

    def run():
        while count[0] < limit and step() == SUCCESS:
            count[0] += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    seen = -1
    while thread.is_alive() and seen != count[0]:
        seen = count[0]
        thread.join(PATIENCE_S)
    return count, thread


def launch_queue_depth(driver):
    """After how many launches behind a kernel that does not end does the next one wait?"""
    driver.context()
    functions, stream, limit = driver.kernels(), driver.stream(), 4096
    gate = Gate(driver, stream, functions)
    count, thread = progress_of(lambda: driver.launch_code(functions["nothing"], stream), limit)
    depth = count[0]
    gate.open()
    thread.join()
    driver.call("cuStreamSynchronize", stream)
    return {"waits": depth < limit, "launches_queued": depth, "all_launched": count[0] == limit}


def pageable_copy_on_busy_stream(driver, size, direction):
    """Does an asynchronous copy of pageable memory return while its stream is busy, and is its source read at the call?"""
    driver.context()
    functions, stream, size = driver.kernels(), driver.stream(), int(size)
    memory, host = driver.memory(size), ctypes.create_string_buffer(b"\x01" * size, size)
    driver.call("cuMemsetD8_v2", memory, 2, size)
    driver.call("cuCtxSynchronize")
    gate = Gate(driver, stream, functions)
    call = (("cuMemcpyHtoDAsync_v2", memory, host, size, stream) if direction == "to_device"
            else ("cuMemcpyDtoHAsync_v2", host, memory, size, stream))
    codes = []
    thread = threading.Thread(target=lambda: (driver.context(), codes.append(driver.code(*call))), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    found = {"returns_while_busy": not thread.is_alive()}
    if direction == "to_device" and not thread.is_alive():
        ctypes.memset(host, 3, size)
    gate.open()
    thread.join()
    found["result"] = codes[0]
    found["landed_on_return"] = host.raw == b"\x02" * size if direction == "from_device" and not found["returns_while_busy"] else None
    driver.call("cuStreamSynchronize", stream)
    if direction == "to_device":
        back = ctypes.create_string_buffer(size)
        driver.call("cuMemcpyDtoH_v2", back, memory, size)
        found["source_read"] = {b"\x01": "at the call", b"\x03": "later"}.get(back.raw[:1], "neither")
    return found


def mapped_copy_in_other_context(driver, asynchronous):
    """Does a copy from mapped memory of device 0 work while the context of device 1 is current?"""
    if driver.devices() < 2:
        raise NotHere("one device only")
    driver.context(0)
    address, _ = driver.mapped(BLOCK_BYTES, 0)
    driver.call("cuMemsetD8_v2", address, 7, 64)
    driver.call("cuCtxSynchronize")
    driver.context(1)
    host = ctypes.create_string_buffer(64)
    if asynchronous == "yes":
        stream = driver.stream()
        code = driver.code("cuMemcpyDtoHAsync_v2", host, address, 64, stream)
        code = code or driver.code("cuStreamSynchronize", stream)
    else:
        code = driver.code("cuMemcpyDtoH_v2", host, address, 64)
    return {"result": code, "copied": host.raw == b"\x07" * 64}


def mapped_memory_across_reset(driver):
    """Does mapped memory survive a reset of the primary context?"""
    driver.context()
    address, _ = driver.mapped(BLOCK_BYTES)
    driver.call("cuMemsetD8_v2", address, 7, 64)
    driver.call("cuCtxSynchronize")
    driver.call("cuDevicePrimaryCtxReset_v2", 0)
    driver.context()
    host = ctypes.create_string_buffer(64)
    code = driver.code("cuMemcpyDtoH_v2", host, address, 64)
    return {"result": code, "kept": host.raw == b"\x07" * 64}


def jit_log_of_library(driver):
    """When does a library write the log that cuLibraryLoadData was given?"""
    driver.context()
    log, mark = ctypes.create_string_buffer(b"\xaa" * 4096, 4096), b"\xaa" * 4096
    options = (c_int * 2)(3, 4)  # CU_JIT_INFO_LOG_BUFFER and its size
    values = (c_void_p * 2)(ctypes.addressof(log), 4096)
    library = c_void_p()
    result = driver.code("cuLibraryLoadData", byref(library), KERNELS, options, values,
                         2, None, None, 0)
    found = {"result": result, "at_load": log.raw != mark}
    if result == SUCCESS:
        kernel, function, before = c_void_p(), c_void_p(), log.raw
        driver.call("cuLibraryGetKernel", byref(kernel), library, b"nothing")
        driver.call("cuKernelGetFunction", byref(function), kernel)
        found["later"] = log.raw != before
    return found


def unknown_entry_point(driver):
    """What cuGetProcAddress says of a name that no driver has."""
    address, status = c_void_p(1), c_int(-1)
    code = driver.code("cuGetProcAddress_v2", b"cuNoSuchFunction", byref(address), 12000, 0, byref(status))
    return {"result": code, "address": "null" if not address.value else "untouched" if address.value == 1 else "some", "status": status.value}


def attributes_of_plain_memory(driver):
    """What cuPointerGetAttribute(s) say of memory that no driver has allocated."""
    driver.context()
    memory = ctypes.create_string_buffer(4096)
    found = {}
    for name, attribute in (("context", 1), ("memory_type", 2), ("device_pointer", 3), ("is_managed", 8), ("device_ordinal", 9)):
        out = c_uint64(0xEEEEEEEE)
        found[name] = driver.code("cuPointerGetAttribute", byref(out), attribute, c_uint64(ctypes.addressof(memory)))
    kinds, out = (c_int * 2)(2, 9), [c_uint(77), c_int(77)]
    values = (c_void_p * 2)(*[ctypes.addressof(o) for o in out])
    found["several"] = driver.code("cuPointerGetAttributes", 2, kinds, values, c_uint64(ctypes.addressof(memory)))
    found["several_memory_type"], found["several_device"] = out[0].value, out[1].value
    return found
