"""What one look at hardware has left open (docs/driver-behaviour.md, "Seen, and not followed yet"): each function asks a driver one
question and returns the answers."""

import ctypes
import threading
import time
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

from device import HOST_FUNCTION, KERNELS, SUCCESS, Gate

DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
LEGACY, PER_THREAD = c_void_p(1), c_void_p(2)
LARGE = 2**64 - 1


def fills_beyond_all_bytes(driver):
    """What is said to a fill whose bytes are more than 64 bits count?"""
    driver.context()
    memory = driver.memory(4096)
    counts = {"half": LARGE // 2, "quarter": LARGE // 4, "wraps_to_8": LARGE // 4 + 3, "most": LARGE}
    found = {name: driver.code("cuMemsetD32_v2", memory, c_uint(0), count) for name, count in counts.items()}
    return {**found, "afterwards": driver.code("cuCtxSynchronize")}


class ArrayDescription(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR"""
    _fields_ = [("sizes", c_size_t * 3), ("format", c_int), ("channels", c_uint), ("flags", c_uint)]


def arrays_in_planes(driver):
    """Which arrays of NV12 are there to be had?"""
    driver.context()
    nv12, found = 0xb0, {}
    for width, height in ((32, 12), (1920, 1080)):
        for depth in (0, 1):
            for channels in (1, 3):
                for flags in (0, 2, 0x100, 0x102):
                    description = ArrayDescription((width, height, depth), nv12, channels, flags)
                    array = c_void_p()
                    code = driver.code("cuArray3DCreate_v2", byref(array), byref(description))
                    found[f"{width}x{height}x{depth}_of_{channels}_flags_{flags:x}"] = code
                    if code == SUCCESS:
                        driver.call("cuArrayDestroy", array)
    return found


def attributes_of_kernel_and_function(driver):
    """What do a kernel and its function tell of what was set of the other?"""
    driver.context()
    library = c_void_p()
    driver.call("cuLibraryLoadData", byref(library), KERNELS, None, None, 0, None, None, 0)
    kernel = c_void_p(driver.made(c_void_p, "cuLibraryGetKernel", library, b"nothing"))
    function = c_void_p(driver.made(c_void_p, "cuKernelGetFunction", kernel))
    found = {}

    def tell(when):
        found[f"{when}_kernel"] = driver.made(c_int, "cuKernelGetAttribute", DYNAMIC_SHARED_BYTES, kernel, 0)
        found[f"{when}_function"] = driver.made(c_int, "cuFuncGetAttribute", DYNAMIC_SHARED_BYTES, function)

    def launch(when):
        for name, what in (("function", function), ("kernel", kernel)):
            found[f"{when}_launch_by_{name}"] = driver.code("cuLaunchKernel", what, 1, 1, 1, 1, 1, 1, 60000, None, None, None)

    tell("at_first")
    driver.call("cuKernelSetAttribute", DYNAMIC_SHARED_BYTES, 60000, kernel, 0)
    tell("kernel_set")
    launch("kernel_set")
    driver.call("cuFuncSetAttribute", function, DYNAMIC_SHARED_BYTES, 1024)
    tell("function_set")
    launch("function_set")
    driver.call("cuKernelSetAttribute", DYNAMIC_SHARED_BYTES, 60000, kernel, 0)
    tell("kernel_set_again")
    return found


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", c_int), ("padding", c_int), ("value", c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("sizes", c_uint * 7), ("stream", c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", c_uint)]


def clusters(driver):
    """Are there clusters of so many blocks, and of a launch with no size of clusters?"""
    driver.context()
    function, found = driver.kernels()["nothing"], {}
    for blocks in (0, 1, 2, 3, 4, 8, 16):
        attribute = LaunchAttribute(id=4, value=(blocks, 1, 1))
        config = LaunchConfig(sizes=(64, 1, 1, 64, 1, 1, 0), attributes=ctypes.pointer(attribute), count=1 if blocks else 0)
        number = c_int(-1)
        found[f"of_{blocks}"] = driver.code("cuOccupancyMaxActiveClusters", byref(number), function, byref(config))
        found[f"launch_of_{blocks}"] = driver.code("cuLaunchKernelEx", byref(config), function, None, None)
    return found


def times_of_context_events(driver):
    """Is there a time between events that were recorded of a context?"""
    context = c_void_p(driver.context())
    first, second, milliseconds = driver.event(), driver.event(), c_float(-1)
    codes = {name: driver.code("cuCtxRecordEvent", context, event) for name, event in (("first", first), ("second", second))}
    driver.call("cuCtxSynchronize")
    code = driver.code("cuEventElapsedTime", byref(milliseconds), first, second)
    return {**codes, "elapsed": code, "is_time": code == SUCCESS and milliseconds.value >= 0}


def behind_function_of_legacy_stream(driver, what):
    """Does what is given to a blocking stream wait for a host function of the legacy stream?"""
    driver.context()
    stream, functions = c_void_p(driver.made(c_void_p, "cuStreamCreate", 0)), driver.kernels()
    host = driver.made(c_void_p, "cuMemHostAlloc", 4096, 2)
    memory, go = driver.memory(64), threading.Event()
    driver.launch(functions["store"], stream, c_uint64(memory), c_uint(1))
    driver.call("cuCtxSynchronize")
    function = HOST_FUNCTION(lambda _: go.wait(2) and None)
    driver.call("cuLaunchHostFunc", LEGACY, function, None)
    if what == "kernel":
        driver.launch(functions["store"], stream, c_uint64(memory), c_uint(2))
    else:
        driver.call("cuMemcpyHtoDAsync_v2", memory, c_void_p(host), 4, stream)
    deadline = time.monotonic() + 0.3
    while driver.code("cuStreamQuery", stream) != SUCCESS and time.monotonic() < deadline:
        time.sleep(0.01)
    waits = driver.code("cuStreamQuery", stream) != SUCCESS
    go.set()
    driver.call("cuCtxSynchronize")
    return {"waits": waits}


def locked_memory_is_read(driver):
    """When is page-locked memory read that is copied behind a kernel: at the call, or in the order of the stream?"""
    driver.context()
    stream, functions = driver.stream(), driver.kernels()
    host = driver.made(c_void_p, "cuMemHostAlloc", 4096, 0)
    source, landed, memory = ctypes.cast(host, ctypes.POINTER(c_uint)), c_uint(0), driver.memory(64)
    source[0] = 1
    gate = Gate(driver, stream, functions)
    driver.call("cuMemcpyHtoDAsync_v2", memory, c_void_p(host), 4, stream)
    source[0] = 2
    gate.open()
    driver.call("cuStreamSynchronize", stream)
    driver.call("cuMemcpyDtoH_v2", byref(landed), memory, 4)
    return {"read": {1: "at the call", 2: "in the order of the stream"}.get(landed.value, landed.value)}


def streams_of_green_contexts(driver):
    """Which names of streams can be waited for, and asked, while a green context is current?"""
    driver.context()
    resource, description, green, current = ctypes.create_string_buffer(1024), c_void_p(), c_void_p(), c_void_p()
    driver.call("cuDeviceGetDevResource", 0, resource, 1)
    driver.call("cuDevResourceGenerateDesc", byref(description), resource, 1)
    driver.call("cuGreenCtxCreate", byref(green), description, 0, 1)
    driver.call("cuCtxFromGreenCtx", byref(current), green)
    driver.call("cuCtxSetCurrent", current)
    memory, found = driver.memory(64), {}
    for name, stream in (("null", None), ("legacy", LEGACY), ("per_thread", PER_THREAD)):
        found[f"{name}_fill"] = driver.code("cuMemsetD8Async", memory, c_uint(0), 4, stream)
        found[f"{name}_synchronize"] = driver.code("cuStreamSynchronize", stream)
        found[f"{name}_query"] = driver.code("cuStreamQuery", stream)
    return found


def flags_of_executable_graphs(driver, nodes):
    """Which of the flags that a graph was made with does it tell?"""
    driver.context()
    graph, found = c_void_p(driver.made(c_void_p, "cuGraphCreate", 0)), {}
    if nodes == "kernel":
        stream, function = driver.stream(), driver.kernels()["nothing"]
        driver.call("cuStreamBeginCapture_v2", stream, 2)
        driver.launch(function, stream)
        driver.call("cuStreamEndCapture", stream, byref(graph))
    for flags in (0, 1, 8, 9):
        made, told = c_void_p(), c_ulonglong(77)
        code = driver.code("cuGraphInstantiateWithFlags", byref(made), graph, flags)
        found[f"made_with_{flags}"] = code
        if code == SUCCESS:
            found[f"told_with_{flags}"] = told.value if driver.code("cuGraphExecGetFlags", made, byref(told)) == SUCCESS else "error"
    return found


def ports_of_launched_events(driver, kind, mode):
    """What is told of a stream that waits, while it is captured, for an event that a launch records?"""
    driver.context()
    function, stream, waiting = driver.kernels()["nothing"], driver.stream(), driver.stream()
    event = driver.made(c_void_p, "cuEventCreate", 2)  # without a time
    value = (event & 0xffffffff, event >> 32, 0, 0)
    attribute = LaunchAttribute(id={"programmatic": 7, "completion": 12}[kind], value=value)
    config = LaunchConfig(sizes=(1,) * 6 + (0,), stream=stream, attributes=ctypes.pointer(attribute), count=1)
    driver.call("cuStreamBeginCapture_v2", stream, {"global": 0, "relaxed": 2}[mode])
    found = {"launch": driver.code("cuLaunchKernelEx", byref(config), function, None, None)}
    found["wait"] = driver.code("cuStreamWaitEvent", waiting, c_void_p(event), 0)
    status, id, graph, count = c_int(-1), c_uint64(), c_void_p(), c_size_t()
    nodes, edges = ctypes.POINTER(c_void_p)(), ctypes.POINTER(ctypes.c_ubyte)()
    known = byref(status), byref(id), byref(graph), byref(nodes)
    found["without_edges"] = driver.code("cuStreamGetCaptureInfo_v2", waiting, *known, byref(count))
    found["with_edges"] = driver.code("cuStreamGetCaptureInfo_v3", waiting, *known, byref(edges), byref(count))
    found |= {"status": status.value, "nodes": count.value}
    if found["with_edges"] == SUCCESS and count.value == 1 and edges:
        found |= {"port": edges[0], "type": edges[2]}  # CUgraphEdgeData: from_port, to_port, type
    return found
