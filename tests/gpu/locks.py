"""Which calls of a driver wait while another thread of the process waits in one: what a server may do beside a wait, and what stands still
for ever if the wait ends only by something that comes after."""

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

from device import BLOCK_BYTES, HOST_FUNCTION, KERNELS, SUCCESS, Gate
from meaning import PATIENCE_S, progress_of

SMALL, LARGE = 4096, 1 << 20


class Scene:
    """A device with a stream that is busy, and everything that waits and calls need, made before it was."""

    def __init__(self, driver):
        self.driver, code = driver, driver.code
        driver.context()
        functions = driver.kernels()
        self.busy = c_void_p(driver.made(c_void_p, "cuStreamCreate", 0))  # the legacy stream waits for it
        self.free, self.spare = driver.stream(), driver.stream()
        self.memory, self.unused = driver.memory(LARGE), driver.memory(LARGE)
        self.locked = c_void_p(driver.made(c_void_p, "cuMemHostAlloc", LARGE, 0))
        self.unused_locked = c_void_p(driver.made(c_void_p, "cuMemHostAlloc", LARGE, 0))
        self.pageable = ctypes.create_string_buffer(64 << 20)
        self.own = ctypes.create_string_buffer(2 * LARGE)
        self.register = (ctypes.addressof(self.own) + 4095) & ~4095
        self.other = ctypes.create_string_buffer(2 * LARGE)
        self.registered = (ctypes.addressof(self.other) + 4095) & ~4095
        driver.call("cuMemHostRegister_v2", c_void_p(self.registered), LARGE, 0)
        self.event, self.done, self.unused_event = driver.event(), driver.event(), driver.event()
        driver.call("cuEventRecord", self.done, self.free)
        mapped = driver.mapped(BLOCK_BYTES)[0] if driver.attribute(102) else 0
        self.function = HOST_FUNCTION(lambda _: None)
        graph = c_void_p(driver.made(c_void_p, "cuGraphCreate", 0))
        self.graph = c_void_p(driver.made(c_void_p, "cuGraphInstantiateWithFlags", graph, c_uint64(0)))
        driver.launch(functions["nothing"], self.free)  # loaded
        driver.call("cuLaunchHostFunc", self.free, self.function, None)
        driver.call("cuGraphLaunch", self.graph, self.free)
        driver.call("cuMemcpyHtoDAsync_v2", self.memory, self.locked, SMALL, self.free)
        driver.call("cuMemcpyDtoHAsync_v2", self.locked, self.memory, SMALL, self.free)
        driver.call("cuMemsetD8Async", self.memory, 0, 64, self.free)
        self.from_pool = driver.made(c_uint64, "cuMemAllocAsync", LARGE, self.free)
        driver.call("cuCtxSynchronize")
        self.gate = Gate(driver, self.busy, functions)
        driver.call("cuEventRecord", self.event, self.busy)
        nothing, out = functions["nothing"], c_uint64()
        self.repeats = {
            "full_queue": lambda: driver.launch_code(nothing, self.busy),
            "full_queue_of_copies": lambda: code("cuMemcpyDtoHAsync_v2", self.locked, self.memory, 64, self.busy),
            "full_queue_of_small_copies": lambda: code("cuMemcpyHtoDAsync_v2", self.memory, self.pageable, 64, self.busy),
            "full_queue_of_large_copies": lambda: code("cuMemcpyHtoDAsync_v2", self.memory, self.pageable, LARGE, self.busy),
            "full_queue_of_events": lambda: code("cuEventRecord", self.unused_event, self.busy),
            "full_queue_of_graphs": lambda: code("cuGraphLaunch", self.graph, self.busy),
            "full_queue_of_host_functions": lambda: code("cuLaunchHostFunc", self.busy, self.function, None),
        }
        self.waits = {
            "copy_back": lambda: code("cuMemcpyDtoH_v2", self.pageable, self.memory, SMALL),
            "copy_back_large": lambda: code("cuMemcpyDtoH_v2", self.pageable, self.memory, LARGE),
            "copy_back_locked": lambda: code("cuMemcpyDtoH_v2", self.locked, self.memory, SMALL),
            "copy_there": lambda: code("cuMemcpyHtoD_v2", self.memory, self.pageable, SMALL),
            "copy_there_large": lambda: code("cuMemcpyHtoD_v2", self.memory, self.pageable, LARGE),
            "copy_there_locked": lambda: code("cuMemcpyHtoD_v2", self.memory, self.locked, LARGE),
            "copy_back_async": lambda: code("cuMemcpyDtoHAsync_v2", self.pageable, self.memory, SMALL, self.busy),
            "stream": lambda: code("cuStreamSynchronize", self.busy),
            "event": lambda: code("cuEventSynchronize", self.event),
            "context": lambda: code("cuCtxSynchronize"),
            "free": lambda: code("cuMemFree_v2", self.unused),
            "free_host": lambda: code("cuMemFreeHost", self.unused_locked),
            "load": lambda: code("cuModuleLoadData", byref(c_void_p()), KERNELS),
        }
        self.calls = {
            "launch": lambda: driver.launch_code(nothing, self.free),
            "launch_in_busy_stream": lambda: driver.launch_code(nothing, self.busy),
            "graph_launch": lambda: code("cuGraphLaunch", self.graph, self.free),
            "host_function": lambda: code("cuLaunchHostFunc", self.free, self.function, None),
            "event_create": lambda: code("cuEventCreate", byref(c_void_p()), 0),
            "event_record": lambda: code("cuEventRecord", self.done, self.free),
            "event_query": lambda: code("cuEventQuery", self.done),
            "event_wait": lambda: code("cuStreamWaitEvent", self.free, self.done, 0),
            "event_synchronize": lambda: code("cuEventSynchronize", self.done),
            "event_destroy": lambda: code("cuEventDestroy_v2", self.unused_event),
            "stream_create": lambda: code("cuStreamCreate", byref(c_void_p()), 1),
            "stream_query": lambda: code("cuStreamQuery", self.free),
            "stream_query_busy": lambda: code("cuStreamQuery", self.busy),
            "stream_synchronize": lambda: code("cuStreamSynchronize", self.free),
            "stream_destroy": lambda: code("cuStreamDestroy_v2", self.spare),
            "copy_there_locked_async": lambda: code("cuMemcpyHtoDAsync_v2", self.memory, self.locked, SMALL, self.free),
            "copy_there_async": lambda: code("cuMemcpyHtoDAsync_v2", self.memory, self.pageable, SMALL, self.free),
            "copy_back_locked_async": lambda: code("cuMemcpyDtoHAsync_v2", self.locked, self.memory, SMALL, self.free),
            "copy_back_async": lambda: code("cuMemcpyDtoHAsync_v2", self.pageable, self.memory, SMALL, self.free),
            "fill_async": lambda: code("cuMemsetD8Async", self.memory, 0, 64, self.free),
            "alloc": lambda: code("cuMemAlloc_v2", byref(c_uint64()), LARGE),
            "alloc_async": lambda: code("cuMemAllocAsync", byref(c_uint64()), SMALL, self.free),
            "free_async": lambda: code("cuMemFreeAsync", self.from_pool, self.free),
            "host_alloc": lambda: code("cuMemHostAlloc", byref(c_void_p()), LARGE, 0),
            "host_register": lambda: code("cuMemHostRegister_v2", c_void_p(self.register), LARGE, 0),
            "host_unregister": lambda: code("cuMemHostUnregister", c_void_p(self.registered)),
            "create_and_map": lambda: driver.mapped(BLOCK_BYTES) and SUCCESS,
            "unmap": lambda: code("cuMemUnmap", mapped, BLOCK_BYTES),
            "memory_info": lambda: code("cuMemGetInfo_v2", byref(c_size_t()), byref(c_size_t())),
            "pointer_attribute": lambda: code("cuPointerGetAttribute", byref(out), 2, c_uint64(self.memory)),
            "function_attribute": lambda: code("cuFuncGetAttribute", byref(c_int()), 0, nothing),
            "load": lambda: code("cuModuleLoadData", byref(c_void_p()), KERNELS),
            "context_synchronize_is_free": lambda: code("cuStreamSynchronize", self.spare),
        }


def thread_of(driver, step):
    """A thread with the context current that makes one call once it is told to: (thread, what tells it, the results)."""
    go, ready, results = threading.Event(), threading.Event(), []

    def run():
        driver.context()
        ready.set()
        go.wait()
        results.append(step())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    return thread, go, results


def beside(driver, wait, call):
    """Does a call go on while another thread waits? `wait`: none, one of Scene.waits or .repeats (until one of them waits)."""
    scene = Scene(driver)
    second, go, results = thread_of(driver, scene.calls[call])
    found = {}
    if wait in scene.repeats:
        count, first = progress_of(scene.repeats[wait], 6000)
        found["repeats_queued"], found["does_wait"] = count[0], first.is_alive()
    elif wait != "none":
        first, begin, _ = thread_of(driver, scene.waits[wait])
        begin.set()
        first.join(PATIENCE_S / 2)
        found["does_wait"] = first.is_alive()
    go.set()
    second.join(PATIENCE_S / 2)
    found["goes_on"], found["result"] = not second.is_alive(), results[0] if results else None
    scene.gate.open()
    second.join()
    return found
