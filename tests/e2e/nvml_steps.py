"""What programs do with NVML, each step a function: test_nvml.py runs one in a process of its own, which has libnvidia-ml.so.1 and
libcuda.so.1 from LD_LIBRARY_PATH and NVML's Python bindings from PYTHONPATH.

nvml_steps.py STEP [ARGUMENT]"""

import ctypes
import os
import sys
import threading
import time

import pynvml as nv

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND, VERSION_MISMATCH = 1, 2, 3, 7, 13, 25
# What a program allocates; and the most that contexts of a session and of workers that are ready take, on the strict profile: 128 MiB
# each.
MEMORY, CONTEXTS = 512 << 20, 500 << 20
SPIN = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds)
{
    .reg .u32 %r<4>;
    .reg .u64 %a;
    .reg .pred %p;
    ld.param.u64 %a, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, 0;
again:
    add.u32 %r2, %r2, 3;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p, %r1, 0;
    @%p bra again;
    st.global.u32 [%a], %r2;
    ret;
}
"""


def library():
    return ctypes.CDLL("libnvidia-ml.so.1")


def check(result, wanted=0):
    assert result == wanted, f"{result} instead of {wanted}"


class Cuda:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        check(self.cuda.cuInit(0))

    def uuid(self, device):
        uuid = (ctypes.c_ubyte * 16)()
        check(self.cuda.cuDeviceGetUuid_v2(uuid, device))
        return bytes(uuid)

    def bus_id(self, device):
        text = ctypes.create_string_buffer(32)
        check(self.cuda.cuDeviceGetPCIBusId(text, 32, device))
        return text.value.decode()

    def use(self, device):
        context = ctypes.c_void_p()
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(self.cuda.cuCtxSetCurrent(context))

    def allocate(self, size):
        memory = ctypes.c_uint64()
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)))
        return memory


def names():
    """NVML and CUDA tell the same devices."""
    cuda, count = Cuda(), ctypes.c_int()
    check(cuda.cuda.cuDeviceGetCount(ctypes.byref(count)))
    nv.nvmlInit()
    assert nv.nvmlDeviceGetCount() == count.value == 2
    version = ctypes.c_int()
    check(cuda.cuda.cuDriverGetVersion(ctypes.byref(version)))
    assert nv.nvmlSystemGetCudaDriverVersion_v2() == nv.nvmlSystemGetCudaDriverVersion() == version.value
    assert int(nv.nvmlSystemGetDriverVersion().split(".")[0]) >= 450
    assert nv.nvmlSystemGetNVMLVersion().startswith(f"{version.value // 1000}.")
    for index in range(count.value):
        device = nv.nvmlDeviceGetHandleByIndex(index)
        uuid = nv.nvmlDeviceGetUUID(device)
        assert uuid.startswith("GPU-") and uuid[4:].replace("-", "") == cuda.uuid(index).hex(), uuid
        pci = nv.nvmlDeviceGetPciInfo(device)
        assert pci.busIdLegacy.lower() == cuda.bus_id(index).lower() and pci.busId.lower() == "0000" + cuda.bus_id(index).lower()
        assert (pci.domain, pci.bus, pci.device) == tuple(int(part, 16) for part in cuda.bus_id(index).split(".")[0].split(":"))
        longer = nv.nvmlPciInfoExt_v1_t()
        longer.version = ctypes.sizeof(longer) | 1 << 24
        nv.nvmlDeviceGetPciInfoExt(device, ctypes.byref(longer))
        assert longer.busId == pci.busId.encode() or longer.busId == pci.busId
        name, total, major, minor = ctypes.create_string_buffer(96), ctypes.c_size_t(), ctypes.c_int(), ctypes.c_int()
        check(cuda.cuda.cuDeviceGetName(name, 96, index))
        check(cuda.cuda.cuDeviceTotalMem_v2(ctypes.byref(total), index))
        check(cuda.cuda.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), index))
        assert nv.nvmlDeviceGetName(device) == name.value.decode()
        assert nv.nvmlDeviceGetMemoryInfo(device).total == nv.nvmlDeviceGetMemoryInfo(device, version=nv.nvmlMemory_v2).total == total.value
        assert tuple(nv.nvmlDeviceGetCudaComputeCapability(device)) == (major.value, minor.value)
        assert nv.nvmlDeviceGetIndex(device) == index
        for same in (nv.nvmlDeviceGetHandleByUUID(uuid), nv.nvmlDeviceGetHandleByUUID(uuid.removeprefix("GPU-")),
                     nv.nvmlDeviceGetHandleByPciBusId(pci.busId),
                     nv.nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy), nv.nvmlDeviceGetHandleByPciBusId(cuda.bus_id(index))):
            assert nv.nvmlDeviceGetIndex(same) == index
    first, second = map(nv.nvmlDeviceGetHandleByIndex, range(2))
    for other in (second, first):  # NCCL asks of a device and itself, too
        status = ctypes.c_uint(9)
        check(library().nvmlDeviceGetP2PStatus(first, other, 0, ctypes.byref(status)))
        assert status.value == nv.NVML_P2P_STATUS_OK
    assert nv.nvmlDeviceGetTopologyCommonAncestor(first, first) == nv.NVML_TOPOLOGY_INTERNAL
    assert nv.nvmlDeviceGetTopologyCommonAncestor(first, second) == nv.NVML_TOPOLOGY_SINGLE
    assert [nv.nvmlDeviceGetIndex(d) for d in nv.nvmlDeviceGetTopologyNearestGpus(first, nv.NVML_TOPOLOGY_SINGLE)] == [1]


def values():
    """Of a device that nobody uses, in every form of a struct."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    rates = nv.nvmlDeviceGetUtilizationRates(device)
    assert (rates.gpu, rates.memory) == (0, 0)
    memory = nv.nvmlDeviceGetMemoryInfo(device)
    assert memory.used + memory.free == memory.total and memory.used <= CONTEXTS, memory.used
    degrees = nv.nvmlDeviceGetTemperature(device, nv.NVML_TEMPERATURE_GPU)
    assert 0 < degrees < nv.nvmlDeviceGetTemperatureThreshold(device, nv.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    assert nv.nvmlDeviceGetTemperatureV(device, nv.NVML_TEMPERATURE_GPU) == degrees
    assert 0 < nv.nvmlDeviceGetPowerUsage(device) < nv.nvmlDeviceGetEnforcedPowerLimit(device)
    assert nv.nvmlDeviceGetClockInfo(device, nv.NVML_CLOCK_SM) < nv.nvmlDeviceGetMaxClockInfo(device, nv.NVML_CLOCK_SM)
    assert nv.nvmlDeviceGetPerformanceState(device) == 8
    assert nv.nvmlDeviceGetComputeMode(device) == nv.NVML_COMPUTEMODE_DEFAULT
    assert nv.nvmlDeviceGetPersistenceMode(device) == nv.NVML_FEATURE_ENABLED
    assert nv.nvmlDeviceGetDisplayActive(device) == nv.nvmlDeviceGetDisplayMode(device) == nv.NVML_FEATURE_DISABLED
    assert nv.nvmlDeviceGetArchitecture(device) == nv.NVML_DEVICE_ARCH_ADA
    assert nv.nvmlDeviceGetComputeRunningProcesses(device) == [] == nv.nvmlDeviceGetGraphicsRunningProcesses(device)
    fields = nv.nvmlDeviceGetFieldValues(device, [nv.NVML_FI_DEV_POWER_INSTANT, nv.NVML_FI_DEV_ECC_CURRENT])
    assert [field.nvmlReturn for field in fields] == [0, NOT_SUPPORTED], fields
    assert nv.nvmlUnitGetCount() == 0
    for refused in (nv.nvmlDeviceGetEccMode, nv.nvmlDeviceGetMigMode, nv.nvmlDeviceGetSerial, nv.nvmlDeviceGetFanSpeed,
                    lambda d: nv.nvmlDeviceGetNvLinkState(d, 0), nv.nvmlDeviceGetPcieReplayCounter, lambda d: nv.nvmlDeviceSetComputeMode(d, 1)):
        try:
            refused(device)
        except nv.NVMLError_NotSupported:
            continue
        raise AssertionError(f"{refused} answers")


def every_function():
    """Each name of the interface is there; with a device and zeros for what else it wants, none ends the program."""
    nv.nvmlInit()
    device, lib = nv.nvmlDeviceGetHandleByIndex(0), library()
    room = [ctypes.create_string_buffer(1 << 16) for _ in range(5)]
    answers = {}
    for name in open(sys.argv[2], encoding="utf-8").read().split("\n")[1:]:
        if not name or name in ("nvmlErrorString", "nvmlShutdown", "nvmlInternalGetExportTable"):
            continue
        for arguments in ([None] * 6, [device, *room], [device, 0, *room[:4]]):
            if name.startswith(("nvmlDeviceGetHandleBy", "nvmlSystemGetProcessName", "nvmlDeviceGetName", "nvmlDeviceGetFieldValues")) and arguments[0] is device:
                continue  # what reads a text, or is told how much room there is
            answers.setdefault(name, set()).add(getattr(lib, name)(*arguments))
    for name, results in answers.items():
        assert results <= {0, 1, 2, 3, 6, 7, 25}, (name, results)
    assert sum(NOT_SUPPORTED in results for results in answers.values()) > 250
    for code in (*range(31), 999):
        lib.nvmlErrorString.restype = ctypes.c_char_p
        assert (lib.nvmlErrorString(code) == b"Unknown Error") == (code == 999), code


def rules():
    """Counting, versions, buffers, export tables."""
    lib, count = library(), ctypes.c_uint()
    check(lib.nvmlShutdown(), UNINITIALIZED)
    check(lib.nvmlDeviceGetCount_v2(ctypes.byref(count)), UNINITIALIZED)
    check(lib.nvmlDeviceSetEccMode(None, 1), UNINITIALIZED)
    for start in (lib.nvmlInit, lib.nvmlInit_v2):
        check(start())
    check(lib.nvmlInitWithFlags(1))
    for _ in range(2):
        check(lib.nvmlShutdown())
        check(lib.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    check(lib.nvmlDeviceGetCount_v2(None), INVALID_ARGUMENT)
    check(lib.nvmlDeviceGetHandleByIndex_v2(9, ctypes.byref(ctypes.c_void_p())), INVALID_ARGUMENT)
    check(lib.nvmlDeviceGetHandleByUUID(b"GPU-0", ctypes.byref(ctypes.c_void_p())), 6)
    device = ctypes.c_void_p()
    check(lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
    check(lib.nvmlDeviceGetName(ctypes.c_void_p(8), None, 0), INVALID_ARGUMENT)
    check(lib.nvmlDeviceGetName(device, ctypes.create_string_buffer(4), 4), INSUFFICIENT_SIZE)
    check(lib.nvmlDeviceGetUtilizationRates(device, None), INVALID_ARGUMENT)
    for name, struct, version in (("nvmlDeviceGetMemoryInfo_v2", nv.c_nvmlMemory_v2_t, 2), ("nvmlDeviceGetPciInfoExt", nv.nvmlPciInfoExt_v1_t, 1),
                                  ("nvmlDeviceGetTemperatureV", nv.c_nvmlTemperature_v1_t, 1)):
        value = struct()
        for wrong in (0, ctypes.sizeof(struct), ctypes.sizeof(struct) | version + 1 << 24, ctypes.sizeof(struct) + 4 | version << 24):
            value.version = wrong
            check(getattr(lib, name)(device, ctypes.byref(value)), VERSION_MISMATCH)
        value.version = ctypes.sizeof(struct) | version << 24
        check(getattr(lib, name)(device, ctypes.byref(value)))
        assert value.version == ctypes.sizeof(struct) | version << 24
    value = (ctypes.c_uint * 32)()
    for name, *inputs in (("NvLinkState", 36), ("NvLinkRemotePciInfo_v2", 36), ("NvLinkCapability", 0, 6), ("ClockInfo", 4), ("Clock", 0, 4),
                          ("MaxClockInfo", 4), ("Temperature", 2), ("TemperatureThreshold", 8), ("MemoryErrorCounter", 0, 0, 8)):
        check(getattr(lib, f"nvmlDeviceGet{name}")(device, *inputs, value), INVALID_ARGUMENT)
    for name, *inputs in (("NvLinkState", 35), ("NvLinkCapability", 35, 5), ("Clock", 0, 1), ("Temperature", 1), ("FanSpeed_v2", 99)):
        check(getattr(lib, f"nvmlDeviceGet{name}")(device, *inputs, value), NOT_SUPPORTED)
    nearest, room = (ctypes.c_void_p * 2)(), ctypes.c_uint(0)
    check(lib.nvmlDeviceGetTopologyNearestGpus(device, nv.NVML_TOPOLOGY_SINGLE, ctypes.byref(room), None))
    assert room.value == 2, room
    room.value = 1
    check(lib.nvmlDeviceGetTopologyNearestGpus(device, nv.NVML_TOPOLOGY_SINGLE, ctypes.byref(room), nearest))
    assert room.value == 1 and nearest[0] and not nearest[1], room
    check(lib.nvmlDeviceGetTopologyNearestGpus(device, nv.NVML_TOPOLOGY_SINGLE, ctypes.byref(room), None), INVALID_ARGUMENT)
    check(lib.nvmlDeviceGetTopologyNearestGpus(device, 15, ctypes.byref(room), nearest), INVALID_ARGUMENT)
    table = ctypes.c_void_p(1)
    check(lib.nvmlInternalGetExportTable(ctypes.byref(table), bytes(16)), FUNCTION_NOT_FOUND)
    assert table.value is None
    check(lib.nvmlShutdown())
    check(lib.nvmlShutdown(), UNINITIALIZED)


def no_server():
    lib = library()
    for _ in range(3):
        check(lib.nvmlInit_v2(), 9)
    check(lib.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint())), UNINITIALIZED)


def work():
    """Says what it has on the second device, keeps it busy until a line comes, and ends."""
    cuda = Cuda()
    cuda.use(1)
    memory, module, kernel = cuda.allocate(MEMORY), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuda.cuModuleLoadData(ctypes.byref(module), SPIN))
    check(cuda.cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin"))
    rounds = ctypes.c_uint(200_000)
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(rounds))
    print(os.getpid(), flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), ended.set())).start()
    while not ended.is_set():
        check(cuda.cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, arguments, None))
        check(cuda.cuda.cuCtxSynchronize())


def watch():
    """Sees a program (its process is the argument) at work; and that it has gone, when it is told that it has."""
    pid = int(sys.argv[2])
    nv.nvmlInit()
    idle, busy = map(nv.nvmlDeviceGetHandleByIndex, range(2))
    power, clock = nv.nvmlDeviceGetPowerUsage(idle), nv.nvmlDeviceGetClockInfo(idle, nv.NVML_CLOCK_SM)
    until(lambda: nv.nvmlDeviceGetUtilizationRates(busy).gpu > 20 and nv.nvmlDeviceGetPowerUsage(busy) > power)
    assert nv.nvmlDeviceGetClockInfo(busy, nv.NVML_CLOCK_SM) > clock and nv.nvmlDeviceGetPerformanceState(busy) == 0
    assert nv.nvmlDeviceGetUtilizationRates(idle).gpu == 0
    used = nv.nvmlDeviceGetMemoryInfo(busy, version=nv.nvmlMemory_v2).used
    assert MEMORY <= used <= MEMORY + CONTEXTS and nv.nvmlDeviceGetMemoryInfo(idle).used <= CONTEXTS, used
    [process] = nv.nvmlDeviceGetComputeRunningProcesses(busy)
    assert process.pid == pid and MEMORY <= process.usedGpuMemory <= used, process
    assert "python" in nv.nvmlSystemGetProcessName(pid)
    print("seen", flush=True)
    sys.stdin.readline()
    until(lambda: nv.nvmlDeviceGetComputeRunningProcesses(busy) == [] and nv.nvmlDeviceGetMemoryInfo(busy).used <= CONTEXTS)
    until(lambda: nv.nvmlDeviceGetUtilizationRates(busy).gpu == 0)


def session_first():
    """Of several servers NVML shows that of the session, though another one is the first for it; and that one without a session."""
    def shown():
        nv.nvmlInit()
        assert nv.nvmlDeviceGetCount() == 1
        uuid = nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(0))
        nv.nvmlShutdown()
        return uuid[4:].replace("-", "")

    first = shown()
    os.environ["WARPLINE_SERVERS"] = ",".join(reversed(os.environ["WARPLINE_SERVERS"].split(",")))
    second = shown()
    assert first != second
    cuda = Cuda()
    assert cuda.uuid(0).hex() == second == shown()
    os.environ["WARPLINE_SERVERS"] = ",".join(reversed(os.environ["WARPLINE_SERVERS"].split(",")))
    assert shown() == second


def without_library():
    """The server's driver has no NVML: what CUDA says is there, and nothing else."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(1)
    assert nv.nvmlDeviceGetName(device) and nv.nvmlDeviceGetUUID(device) and nv.nvmlDeviceGetCudaComputeCapability(device)[0] > 0
    assert nv.nvmlSystemGetDriverVersion() and nv.nvmlDeviceGetComputeRunningProcesses(device) == []
    for unknown in (nv.nvmlDeviceGetMemoryInfo, nv.nvmlDeviceGetUtilizationRates, nv.nvmlDeviceGetPowerUsage):
        try:
            unknown(device)
        except nv.NVMLError_NotSupported:
            continue
        raise AssertionError(f"{unknown} answers")
    unknown_peers(device, nv.nvmlDeviceGetHandleByIndex(0))


def unknown_peers(device, other):
    """NCCL ends the program at any error."""
    for index in range(nv.NVML_P2P_CAPS_INDEX_UNKNOWN):
        status = ctypes.c_uint(9)
        check(library().nvmlDeviceGetP2PStatus(device, other, index, ctypes.byref(status)))
        assert status.value == nv.NVML_P2P_STATUS_UNKNOWN, status
    check(library().nvmlDeviceGetP2PStatus(device, other, nv.NVML_P2P_CAPS_INDEX_UNKNOWN, ctypes.byref(status)), INVALID_ARGUMENT)
    check(library().nvmlDeviceGetP2PStatus(device, other, 0, None), INVALID_ARGUMENT)
    check(library().nvmlDeviceGetP2PStatus(device, None, 0, ctypes.byref(status)), INVALID_ARGUMENT)
    check(library().nvmlDeviceGetTopologyCommonAncestor(device, other, ctypes.byref(status)), NOT_SUPPORTED)
    count = ctypes.c_uint(0)
    check(library().nvmlDeviceGetTopologyNearestGpus(device, nv.NVML_TOPOLOGY_SINGLE, ctypes.byref(count), None), NOT_SUPPORTED)


def foreign():
    """Sees that memory is in use, and not by whom."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(1)
    until(lambda: nv.nvmlDeviceGetMemoryInfo(device).used >= MEMORY)
    assert nv.nvmlDeviceGetComputeRunningProcesses(device) == []


def until(reached):
    """Looks again and again, with a deadline, at what another process does: no call tells when NVML's values have changed."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def child():
    """A child of fork goes on with what its parent has, also while another thread of the parent asks."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(1)
    ended = threading.Event()
    asking = threading.Thread(target=lambda: [nv.nvmlDeviceGetPowerUsage(device) for _ in iter(ended.is_set, True)])
    asking.start()
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 0 and nv.nvmlDeviceGetIndex(device) == 1
            nv.nvmlShutdown()
            try:
                nv.nvmlDeviceGetCount()
            except nv.NVMLError_Uninitialized:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    ended.set()
    asking.join()
    assert nv.nvmlDeviceGetPowerUsage(device) > 0


def threads():
    def ask():
        nv.nvmlInit()
        device = nv.nvmlDeviceGetHandleByIndex(0)
        for _ in range(300):
            assert nv.nvmlDeviceGetPowerUsage(device) > 0 and nv.nvmlDeviceGetName(device)
        nv.nvmlShutdown()
        done.append(True)

    done = []
    all_threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    assert len(done) == len(all_threads)
    try:
        nv.nvmlDeviceGetCount()
    except nv.NVMLError_Uninitialized:
        return
    raise AssertionError("initialised and shut down as often, and it answers")


def lost():
    """Its server ends when it says so."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    nv.nvmlDeviceGetPowerUsage(device)
    print("here", flush=True)
    sys.stdin.readline()
    name = nv.nvmlDeviceGetName(device)
    try:
        until(lambda: nv.nvmlDeviceGetPowerUsage(device) < 0)
    except nv.NVMLError_GpuIsLost:
        assert nv.nvmlDeviceGetName(device) == name
        return
    raise AssertionError("it answers")


def nvidias():
    """Values that the server's NVML tells come as they are."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 37
    memory = nv.nvmlDeviceGetMemoryInfo(device)
    assert (memory.total, memory.free, memory.used) == (8 << 30, 6 << 30, 2 << 30)
    unknown_peers(device, nv.nvmlDeviceGetHandleByIndex(1))  # there is no such function, as before NVML 8


def unknown_memory():
    """The server's NVML does not say how much memory this process has, which has a limit of it."""
    cuda = Cuda()
    cuda.use(0)
    cuda.allocate(1 << 20)
    print("here", flush=True)
    sys.stdin.readline()
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    [process] = nv.nvmlDeviceGetComputeRunningProcesses(device)
    assert (process.pid, process.usedGpuMemory) == (os.getpid(), None), process
    memory = nv.nvmlDeviceGetMemoryInfo(device)
    assert (memory.total, memory.free, memory.used) == (MEMORY, MEMORY, 0), memory


def part():
    """An instance of a partitioned GPU has the attributes that the server's NVML (the argument) tells, or none."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceIsMigDeviceHandle(device)
    if sys.argv[2] == "unknown":
        check(library().nvmlDeviceGetAttributes_v2(device, ctypes.create_string_buffer(64)), NOT_SUPPORTED)
        return
    told = nv.nvmlDeviceGetAttributes(device)
    assert (told.multiprocessorCount, told.gpuInstanceSliceCount, told.computeInstanceSliceCount, told.memorySizeMB) == (60, 4, 3, 40448)
    assert told.sharedCopyEngineCount == told.sharedDecoderCount == told.sharedJpegCount == 3 and told.sharedEncoderCount == 0


def slow():
    """A survey takes longer than the server waits for it, and each one is told once it is there, until there is a newer one."""
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlSystemGetDriverVersion() == "570.11"
    for _ in range(2):
        assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 37
        time.sleep(0.5)  # what is known is older then than what is told without asking anew


globals()[sys.argv[1]]()
print("verified")
