"""What nvidia-smi and DCGM ask NVML for, each tool a function: test_nvml_tools.py runs one in a process of its own, as it does with
nvml_steps.py. The tools themselves are not at hand or go no further than their private tables, so it is their questions that are asked:
DCGM's are those of its public source (4.6), nvidia-smi's follow from what its manual says that it prints.

nvml_tools.py TOOL"""

import ctypes
import sys

import pynvml as nv

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, TIMEOUT = 0, 2, 3, 6, 7, 10
NONE = NOT_SUPPORTED  # what docs/nvml.md says is not there, or what the software GPU has not: N/A in nvidia-smi
U32, U64, TEXT = ctypes.c_uint, ctypes.c_ulonglong, "text"
lib = ctypes.CDLL("libnvidia-ml.so.1")
asked = set()


def call(name, *arguments):
    """What a function returns. It has to be exported, and to say nothing but what a tool knows to live with."""
    asked.add(name)
    result = getattr(lib, name)(*arguments)
    assert result in (SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, TIMEOUT), f"{name} returns {result}"
    return result


def versioned(struct, version):
    value = struct()
    value.version = ctypes.sizeof(struct) | version << 24
    return value


def ask(name, *inputs, out=(U32,), wanted=SUCCESS):
    """The outputs of a function (one, or a list), or None where it is not supported, which has to be what is wanted."""
    values = [ctypes.create_string_buffer(96) if o is TEXT else o() if isinstance(o, type) else o for o in out]
    arguments = []
    for value, o in zip(values, out):
        arguments += [value, 96] if o is TEXT else [ctypes.byref(value)]
    result = call(name, *inputs, *arguments)
    assert result == wanted, f"{name}{inputs[1:]} returns {result} instead of {wanted}"
    if result != SUCCESS:
        return None
    values = [v.value.decode() if o is TEXT else v.value if hasattr(v, "value") else v for v, o in zip(values, out)]
    return values[0] if len(values) == 1 else values


def devices():
    count = ask("nvmlDeviceGetCount_v2")
    assert count == 2
    return [ctypes.c_void_p(ask("nvmlDeviceGetHandleByIndex_v2", i, out=(ctypes.c_void_p,))) for i in range(count)]


def fields(device, *numbers):
    """The values of fields: None where one is not supported."""
    values = (nv.c_nvmlFieldValue_t * len(numbers))()
    for value, number in zip(values, numbers):
        value.fieldId = number
    assert call("nvmlDeviceGetFieldValues", device, len(numbers), values) == SUCCESS
    assert all(value.nvmlReturn in (SUCCESS, NOT_SUPPORTED) for value in values)
    return [value.value.uiVal if value.nvmlReturn == SUCCESS else None for value in values]


def processes(name, device, struct=nv.c_nvmlProcessInfo_v2_t):
    """As the tools do: how many there are, then those."""
    count = ctypes.c_uint(0)
    first = call(name, device, ctypes.byref(count), None)
    assert first == (INSUFFICIENT_SIZE if count.value else SUCCESS), (name, first)
    count = ctypes.c_uint(count.value + 8)
    infos = (struct * count.value)()
    assert call(name, device, ctypes.byref(count), infos) == SUCCESS
    return list(infos[:count.value])


class Violation(ctypes.Structure):
    _fields_ = [("reference", U64), ("violation", U64)]


class ProcessInfo1(ctypes.Structure):
    _fields_ = [("pid", U32), ("used", U64)]


class Bytes(ctypes.Structure):
    """Room for a struct that nobody looks into."""

    _fields_ = [("version", U32), ("bytes", ctypes.c_ubyte * 1020)]


class Words(ctypes.Structure):
    _fields_ = [("word", U32 * 64)]


def tag(size, version):
    """A struct of so many bytes, which is all that its version says."""
    value = Bytes()
    value.version = size | version << 24
    return value


def identity(device):
    """What every tool asks first."""
    pci = ask("nvmlDeviceGetPciInfo_v3", device, out=(nv.nvmlPciInfo_t,))
    uuid = ask("nvmlDeviceGetUUID", device, out=(TEXT,))
    assert uuid.startswith("GPU-") and len(pci.busId) == 16
    name = ask("nvmlDeviceGetName", device, out=(TEXT,))
    major, minor = ask("nvmlDeviceGetCudaComputeCapability", device, out=(U32, U32))
    assert name and major >= 7
    for absent in ("Serial", "BoardPartNumber", "VbiosVersion", "InforomImageVersion"):
        ask(f"nvmlDeviceGet{absent}", device, out=(TEXT,), wanted=NONE)
    return uuid, pci.busId.decode() if isinstance(pci.busId, bytes) else pci.busId, name, pci


def smi_table():
    """`nvidia-smi`: the table, which is printed, and its footer of processes."""
    print(f"Driver Version: {ask('nvmlSystemGetDriverVersion', out=(TEXT,))}  NVML {ask('nvmlSystemGetNVMLVersion', out=(TEXT,))}  "
          f"CUDA Version: {ask('nvmlSystemGetCudaDriverVersion_v2') / 1000:.1f}")
    for device in devices():
        index = ask("nvmlDeviceGetIndex", device)
        assert ask("nvmlDeviceGetMinorNumber", device) == index
        _, bus, name, _ = identity(device)
        assert ask("nvmlDeviceGetPersistenceMode", device) == 1 and ask("nvmlDeviceGetDisplayActive", device) == 0
        ask("nvmlDeviceGetFanSpeed", device, wanted=NONE)
        ask("nvmlDeviceGetEccMode", device, out=(U32, U32), wanted=NONE)
        ask("nvmlDeviceGetMigMode", device, out=(U32, U32), wanted=NONE)
        degrees, state = ask("nvmlDeviceGetTemperature", device, 0), ask("nvmlDeviceGetPerformanceState", device)
        power, cap = ask("nvmlDeviceGetPowerUsage", device), ask("nvmlDeviceGetEnforcedPowerLimit", device)
        memory = ask("nvmlDeviceGetMemoryInfo_v2", device, out=(versioned(nv.c_nvmlMemory_v2_t, 2),))
        rates = ask("nvmlDeviceGetUtilizationRates", device, out=(nv.c_nvmlUtilization_t,))
        mode = ask("nvmlDeviceGetComputeMode", device)
        assert 20 < degrees < 90 and state in (0, 8) and 0 < power <= cap and memory.used <= memory.total == 1 << 30 and rates.gpu <= 100
        print(f"| {index:3}  {name:<28} On | {bus} Off | N/A |\n"
              f"| N/A  {degrees}C  P{state}  {power // 1000}W / {cap // 1000}W | {memory.used >> 20}MiB / {memory.total >> 20}MiB | "
              f"{rates.gpu}%  {'Default' if mode == 0 else mode} | N/A |")
        for process in processes("nvmlDeviceGetComputeRunningProcesses_v3", device):
            text = ctypes.create_string_buffer(256)
            assert call("nvmlSystemGetProcessName", process.pid, text, 256) == SUCCESS and text.value
            print(f"|  {index}  N/A N/A  {process.pid}  C  {text.value.decode()}  {process.usedGpuMemory >> 20}MiB |")
        for kind in ("Graphics", "MPSCompute"):
            assert processes(f"nvmlDeviceGet{kind}RunningProcesses_v3", device) == []


def smi_list():
    """`nvidia-smi -L`."""
    for device in devices():
        uuid, _, name, _ = identity(device)
        print(f"GPU {ask('nvmlDeviceGetIndex', device)}: {name} (UUID: {uuid})")
        assert ask("nvmlDeviceGetMaxMigDeviceCount", device) == 0
        assert call("nvmlDeviceGetMigDeviceHandleByIndex", device, 0, ctypes.byref(ctypes.c_void_p())) in (NOT_FOUND, NOT_SUPPORTED)


# Of `nvidia-smi -q` and --query-gpu: what it prints, whence it has it, and with what inputs. N/A: it prints N/A.
PAGE = [
    ("Product Brand", "nvmlDeviceGetBrand", [()], (U32,), SUCCESS),
    ("Product Architecture", "nvmlDeviceGetArchitecture", [()], (U32,), SUCCESS),
    ("Display Mode", "nvmlDeviceGetDisplayMode", [()], (U32,), SUCCESS),
    ("Accounting Mode", "nvmlDeviceGetAccountingMode", [()], (U32,), SUCCESS),
    ("Accounting Mode Buffer Size", "nvmlDeviceGetAccountingBufferSize", [()], (U32,), NONE),
    ("Addressing Mode", "nvmlDeviceGetAddressingMode", [()], (tag(8, 1),), NONE),
    ("Driver Model", "nvmlDeviceGetDriverModel_v2", [()], (U32, U32), NONE),
    ("MultiGPU Board", "nvmlDeviceGetMultiGpuBoard", [()], (U32,), SUCCESS),
    ("Board ID", "nvmlDeviceGetBoardId", [()], (U32,), SUCCESS),
    ("Module ID", "nvmlDeviceGetModuleId", [()], (U32,), NONE),
    ("Inforom OEM, ECC, power", "nvmlDeviceGetInforomVersion", [(0,), (1,), (2,)], (TEXT,), NONE),
    ("Inforom Checksum", "nvmlDeviceGetInforomConfigurationChecksum", [()], (U32,), NONE),
    ("GPU Operation Mode", "nvmlDeviceGetGpuOperationMode", [()], (U32, U32), NONE),
    ("C2C Mode", "nvmlDeviceGetC2cModeInfoV", [()], (U32,), NONE),
    ("Virtualization Mode", "nvmlDeviceGetVirtualizationMode", [()], (U32,), SUCCESS),
    ("Host VGPU Mode", "nvmlDeviceGetHostVgpuMode", [()], (U32,), NONE),
    ("GSP Firmware Version", "nvmlDeviceGetGspFirmwareVersion", [()], (ctypes.c_char * 64,), NONE),
    ("GSP Firmware Mode", "nvmlDeviceGetGspFirmwareMode", [()], (U32, U32), NONE),
    ("IBMNPU, Platform Info", "nvmlDeviceGetPlatformInfo", [()], (tag(44, 2),), NONE),
    ("Bridge Chip", "nvmlDeviceGetBridgeChipInfo", [()], (Words,), NONE),
    ("GPU Link Gen max", "nvmlDeviceGetMaxPcieLinkGeneration", [()], (U32,), NONE),
    ("GPU Link Gen device max", "nvmlDeviceGetGpuMaxPcieLinkGeneration", [()], (U32,), NONE),
    ("GPU Link Gen", "nvmlDeviceGetCurrPcieLinkGeneration", [()], (U32,), NONE),
    ("GPU Link Width max", "nvmlDeviceGetMaxPcieLinkWidth", [()], (U32,), NONE),
    ("GPU Link Width", "nvmlDeviceGetCurrPcieLinkWidth", [()], (U32,), NONE),
    ("Replays Since Reset", "nvmlDeviceGetPcieReplayCounter", [()], (U32,), NONE),
    ("PCIe Tx and Rx Throughput", "nvmlDeviceGetPcieThroughput", [(0,), (1,)], (U32,), NONE),
    ("Fan Speed", "nvmlDeviceGetFanSpeed_v2", [(0,)], (U32,), NONE),
    ("Fans", "nvmlDeviceGetNumFans", [()], (U32,), SUCCESS),
    ("Clocks Event Reasons", "nvmlDeviceGetCurrentClocksEventReasons", [()], (U64,), SUCCESS),
    ("Clocks Event Reasons supported", "nvmlDeviceGetSupportedClocksThrottleReasons", [()], (U64,), SUCCESS),
    ("Violations", "nvmlDeviceGetViolationStatus", [(0,), (1,), (2,), (3,), (4,), (5,)], (Violation,), NONE),
    ("FB Memory Usage", "nvmlDeviceGetMemoryInfo", [()], (nv.c_nvmlMemory_t,), SUCCESS),
    ("BAR1 Memory Usage", "nvmlDeviceGetBAR1MemoryInfo", [()], (nv.c_nvmlBAR1Memory_t,), NONE),
    ("Conf Compute Protected Memory", "nvmlDeviceGetConfComputeProtectedMemoryUsage", [()], (nv.c_nvmlMemory_t,), NONE),
    ("Conf Compute Memory Sizes", "nvmlDeviceGetConfComputeMemSizeInfo", [()], (Words,), NONE),
    ("Encoder", "nvmlDeviceGetEncoderUtilization", [()], (U32, U32), SUCCESS),
    ("Decoder", "nvmlDeviceGetDecoderUtilization", [()], (U32, U32), SUCCESS),
    ("JPEG", "nvmlDeviceGetJpgUtilization", [()], (U32, U32), NONE),
    ("OFA", "nvmlDeviceGetOfaUtilization", [()], (U32, U32), NONE),
    ("Encoder Stats", "nvmlDeviceGetEncoderStats", [()], (U32, U32, U32), SUCCESS),
    ("FBC Stats", "nvmlDeviceGetFBCStats", [()], (Words,), SUCCESS),
    ("DRAM Encryption Mode", "nvmlDeviceGetDramEncryptionMode", [()], (tag(8, 1), tag(8, 1)), NONE),
    ("ECC default", "nvmlDeviceGetDefaultEccMode", [()], (U32,), NONE),
    ("ECC Errors, sums", "nvmlDeviceGetTotalEccErrors", [(0, 0), (1, 1)], (U64,), NONE),
    ("ECC Errors by place", "nvmlDeviceGetMemoryErrorCounter", [(k, c, p) for k in (0, 1) for c in (0, 1) for p in range(8)], (U64,), NONE),
    ("SRAM ECC Errors", "nvmlDeviceGetSramEccErrorStatus", [()], (tag(104, 1),), NONE),
    ("Retired Pages", "nvmlDeviceGetRetiredPages", [(0,), (1,)], (U32, U64), NONE),
    ("Pending Page Blacklist", "nvmlDeviceGetRetiredPagesPendingStatus", [()], (U32,), NONE),
    ("Remapped Rows", "nvmlDeviceGetRemappedRows", [()], (U32, U32, U32, U32), NONE),
    ("Remapper Histogram", "nvmlDeviceGetRowRemapperHistogram", [()], (Words,), NONE),
    ("Channel and TPC Repair Pending", "nvmlDeviceGetRepairStatus", [()], (tag(12, 1),), NONE),
    ("Unrepairable Memory", "nvmlDeviceGetUnrepairableMemoryFlag_v1", [()], (U32,), NONE),
    ("GPU Shutdown and Slowdown Temp", "nvmlDeviceGetTemperatureThreshold", [(0,), (1,)], (U32,), SUCCESS),
    ("GPU Max Operating Temp, memory's, target", "nvmlDeviceGetTemperatureThreshold", [(2,), (3,), (4,), (5,), (6,)], (U32,), NONE),
    ("GPU T.Limit Temp", "nvmlDeviceGetMarginTemperature", [()], (tag(8, 1),), NONE),
    ("Power management", "nvmlDeviceGetPowerManagementMode", [()], (U32,), SUCCESS),
    ("Requested Power Limit", "nvmlDeviceGetPowerManagementLimit", [()], (U32,), SUCCESS),
    ("Default Power Limit", "nvmlDeviceGetPowerManagementDefaultLimit", [()], (U32,), SUCCESS),
    ("Min and Max Power Limit", "nvmlDeviceGetPowerManagementLimitConstraints", [()], (U32, U32), SUCCESS),
    ("Clocks", "nvmlDeviceGetClockInfo", [(0,), (1,), (2,)], (U32,), SUCCESS),
    ("Clocks, by kind", "nvmlDeviceGetClock", [(0, 0), (1, 0), (2, 0)], (U32,), SUCCESS),
    ("Clocks of video, customer boost", "nvmlDeviceGetClock", [(3, 0), (0, 3), (2, 2)], (U32,), NONE),
    ("Applications Clocks", "nvmlDeviceGetApplicationsClock", [(0,), (2,)], (U32,), NONE),
    ("Default Applications Clocks", "nvmlDeviceGetDefaultApplicationsClock", [(0,), (2,)], (U32,), NONE),
    ("Max Clocks", "nvmlDeviceGetMaxClockInfo", [(0,), (1,), (2,)], (U32,), SUCCESS),
    ("Max Customer Boost Clocks", "nvmlDeviceGetMaxCustomerBoostClock", [(0,)], (U32,), NONE),
    ("Auto Boost", "nvmlDeviceGetAutoBoostedClocksEnabled", [()], (U32, U32), NONE),
    ("API Restrictions", "nvmlDeviceGetAPIRestriction", [(0,), (1,)], (U32,), NONE),
    ("Supported Clocks", "nvmlDeviceGetSupportedMemoryClocks", [()], (U32, Words), NONE),
    ("Fabric", "nvmlDeviceGetGpuFabricInfoV", [()], (tag(40, 3),), NONE),
    ("Fabric, older struct", "nvmlDeviceGetGpuFabricInfoV", [()], (tag(36, 2),), NONE),
    ("Dynamic P-states", "nvmlDeviceGetDynamicPstatesInfo", [()], (Words,), NONE),
    ("Power Source", "nvmlDeviceGetPowerSource", [()], (U32,), SUCCESS),
    ("NUMA Node", "nvmlDeviceGetNumaNodeId", [()], (U32,), NONE),
    ("CPU Affinity (topo)", "nvmlDeviceGetCpuAffinity", [(1,)], (Words,), NONE),
    ("Licensed Product", "nvmlDeviceGetGridLicensableFeatures_v4", [()], (Bytes,), NONE),
    ("Energy", "nvmlDeviceGetTotalEnergyConsumption", [()], (U64,), NONE),
    ("NVLink (nvlink -s)", "nvmlDeviceGetNvLinkState", [(link,) for link in range(18)], (U32,), NONE),
]


def smi_page():
    """`nvidia-smi -q`, and --query-gpu= with every property."""
    assert ask("nvmlUnitGetCount") == 0 and ask("nvmlGetExcludedDeviceCount") == 0
    branch = versioned(nv.c_nvmlSystemDriverBranchInfo_v1_t, 1)
    assert call("nvmlSystemGetDriverBranch", ctypes.byref(branch), 80) == SUCCESS and branch.branch[:1] in ("r", b"r")
    for device in devices():
        _, bus, name, pci = identity(device)
        extended = ask("nvmlDeviceGetPciInfoExt", device, out=(versioned(nv.nvmlPciInfoExt_v1_t, 1),))
        assert (extended.baseClass, extended.pciDeviceId) == (3, pci.pciDeviceId)
        print(f"GPU {bus}\n    {'Product Name':<42}: {name}")
        values = {}
        for label, function, inputs, out, wanted in PAGE:
            found = [ask(function, device, *each, out=out, wanted=wanted) for each in inputs]
            values[label] = found
            shown = "N/A" if wanted == NONE else " ".join(str(f if isinstance(f, (int, list)) else "there") for f in found)
            print(f"    {label:<42}: {shown}")
        power, average, instant, *limits = fields(device, nv.NVML_FI_DEV_MEMORY_TEMP, 185, 186, 187, 188, 189, 190, 192)
        assert power is None and average == instant > 0 and limits == [values["Default Power Limit"][0]] * 5
        assert fields(device, 269, 270, 271, 74, 76) == [None] * 5  # for how long clocks were low
        memory = values["FB Memory Usage"][0]
        assert memory.used + memory.free == memory.total and values["Clocks"] == values["Clocks, by kind"]
        assert all(now <= most for now, most in zip(values["Clocks"], values["Max Clocks"]))
        shutdown, slowdown = values["GPU Shutdown and Slowdown Temp"]
        assert ask("nvmlDeviceGetTemperature", device, 0) < slowdown < shutdown


def sample(device, kind, since=0):
    """A sample's time and value; None where there is none since then."""
    kind_of_value, count = U32(), U32()
    if call("nvmlDeviceGetSamples", device, kind, U64(0), ctypes.byref(kind_of_value), ctypes.byref(count), None) == NOT_SUPPORTED:
        return NOT_SUPPORTED
    assert count.value > 0
    samples = (nv.c_nvmlSample_t * count.value)()
    result = call("nvmlDeviceGetSamples", device, kind, U64(since), ctypes.byref(kind_of_value), ctypes.byref(count), samples)
    if result == NOT_FOUND:
        return None
    assert result == SUCCESS and count.value == 1 and kind_of_value.value == nv.NVML_VALUE_TYPE_UNSIGNED_INT
    return samples[0].timeStamp, samples[0].sampleValue.uiVal


def smi_monitor():
    """`nvidia-smi dmon`, `pmon` and -q -d UTILIZATION: rows of values that move, samples among them."""
    for device in devices():
        last = 0
        for _ in range(3):
            at, power = sample(device, nv.NVML_TOTAL_POWER_SAMPLES)
            assert at >= last and power == ask("nvmlDeviceGetPowerUsage", device)
            for kind in (nv.NVML_GPU_UTILIZATION_SAMPLES, nv.NVML_MEMORY_UTILIZATION_SAMPLES, nv.NVML_ENC_UTILIZATION_SAMPLES,
                         nv.NVML_DEC_UTILIZATION_SAMPLES):
                assert sample(device, kind)[1] <= 100
            assert sample(device, nv.NVML_PROCESSOR_CLK_SAMPLES)[1] == ask("nvmlDeviceGetClockInfo", device, nv.NVML_CLOCK_SM)
            last = at
        assert sample(device, nv.NVML_MODULE_POWER_SAMPLES) == NOT_SUPPORTED
        assert sample(device, nv.NVML_TOTAL_POWER_SAMPLES, since=at + 10**9) is None
        # pmon: how much of a device each process takes, which no server tells.
        count = U32()
        assert call("nvmlDeviceGetProcessUtilization", device, None, ctypes.byref(count), U64(0)) == NOT_SUPPORTED
        infos = processes("nvmlDeviceGetComputeRunningProcesses_v3", device)
        listed = versioned(nv.c_nvmlProcessDetailList_v1_t, 1)
        details = (nv.c_nvmlProcessDetail_v1_t * 8)()
        listed.mode, listed.numProcArrayEntries, listed.procArray = 0, 8, details
        assert call("nvmlDeviceGetRunningProcessDetailList", device, ctypes.byref(listed)) == SUCCESS
        assert [details[i].pid for i in range(listed.numProcArrayEntries)] == [info.pid for info in infos]
        listed.numProcArrayEntries, listed.procArray = 0xFFFFFFFF, None
        assert call("nvmlDeviceGetRunningProcessDetailList", device, ctypes.byref(listed)) == (INVALID_ARGUMENT if infos else SUCCESS)


def dcgm():
    """DCGM 4.6's host engine: its start, its look at the GPUs, the fields that its watches read, a turn of its event thread, its end."""
    # DcgmNvmlSystemEventThread::Init, LoadNvml
    for flags in (1 | 2, 1):
        assert call("nvmlInitWithFlags", flags) == SUCCESS
        version = ask("nvmlSystemGetDriverVersion", out=(TEXT,))
        assert int(version.split(".")[0]) >= 450
        assert call("nvmlShutdown") == SUCCESS
    request = tag(16, 1)
    assert call("nvmlSystemEventSetCreate", ctypes.byref(request)) == NOT_SUPPORTED
    # DcgmCacheManager::AttachGpus
    gpus = devices()
    events = ctypes.c_void_p(ask("nvmlEventSetCreate", out=(ctypes.c_void_p,)))
    ask("nvmlSystemGetConfComputeState", out=(Words,), wanted=NONE)
    for device in gpus:
        identity(device)
        assert ask("nvmlDeviceGetBrand", device) == nv.NVML_BRAND_UNKNOWN and ask("nvmlDeviceGetVirtualizationMode", device) == 0
        support = nv.c_nvmlGpmSupport_t()
        support.version = nv.NVML_GPM_SUPPORT_VERSION
        assert ask("nvmlGpmQueryDeviceSupport", device, out=(support,)).isSupportedDevice == 0
        assert fields(device, nv.NVML_FI_DEV_NVLINK_LINK_COUNT) == [0]
        ask("nvmlDeviceGetMigMode", device, out=(U32, U32), wanted=NONE)
    assert ask("nvmlGetExcludedDeviceCount") == 0
    # ManageDeviceEvents
    for device in gpus:
        assert ask("nvmlDeviceGetSupportedEventTypes", device, out=(U64,)) == 0
        assert call("nvmlDeviceRegisterEvents", device, U64(8), events) == NOT_SUPPORTED
        assert call("nvmlDeviceRegisterEvents", device, U64(0), events) == SUCCESS  # of what is wanted, all that is supported
        assert call("nvmlDeviceRegisterEvents", device, U64(0), None) == INVALID_ARGUMENT
    # Topology
    for one in gpus:
        for other in gpus:
            level = ask("nvmlDeviceGetTopologyCommonAncestor", one, other)
            assert (level == nv.NVML_TOPOLOGY_INTERNAL) == (one.value == other.value)
            assert ask("nvmlDeviceGetP2PStatus", one, other, 2) != nv.NVML_P2P_STATUS_OK
        count, nodes = 4, Words()
        assert call("nvmlDeviceGetMemoryAffinity", one, count, ctypes.byref(nodes), 0) == NOT_SUPPORTED
    # BufferOrCacheLatestGpuValue: every field of a watch on all of them
    for device in gpus:
        for label, function, inputs, out, wanted in PAGE:
            for each in inputs:
                ask(function, device, *each, out=out, wanted=wanted)
        assert processes("nvmlDeviceGetComputeRunningProcesses", device, ProcessInfo1) == []
        assert processes("nvmlDeviceGetGraphicsRunningProcesses", device) == []
        for absent, room in (("nvmlDeviceGetAccountingPids", (U32, Words)), ("nvmlDeviceGetSupportedGraphicsClocks", (U32, U32))):
            ask(absent, device, *((405,) if "Clocks" in absent else ()), out=room, wanted=NONE)
        ask("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles", device, out=(Bytes,), wanted=NONE)
        for change in ("nvmlDeviceSetAccountingMode", "nvmlDeviceSetPersistenceMode"):
            assert call(change, device, 1) == NOT_SUPPORTED
    # EventThreadMain, and the end
    data = nv.c_nvmlEventData_t()
    for wait in ("nvmlEventSetWait_v2", "nvmlEventSetWait"):
        assert call(wait, events, ctypes.byref(data), 20) == TIMEOUT
    assert call("nvmlEventSetFree", events) == SUCCESS
    assert call("nvmlEventSetFree", events) == call("nvmlEventSetWait_v2", events, ctypes.byref(data), 0) == INVALID_ARGUMENT


assert call("nvmlInit_v2") == SUCCESS
globals()[sys.argv[1]]()
assert call("nvmlShutdown") == SUCCESS
print(f"{len(asked)} functions")
print("verified")
