// The handshake's two messages, written and read.
#include "client/session/hello.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "client/trace/trace.h"
#include "common/log/log.h"
#include "cuda/abi/newer_values.h"
#include "protocol/codec/message.h"
#include "protocol/schema/envelope.capnp.h"

namespace warpline::client {

namespace {

constexpr size_t k_max_devices = 64;
/// Of uploads; a server that cuts them otherwise is another one than this client knows.
constexpr uint64_t k_least_chunk_bytes = 64 * 1024, k_most_chunk_bytes = 8u << 20;

std::string host_name() {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return "?";
    return name;
}

std::string text(capnp::Text::Reader reader) { return std::string(reader.cStr(), reader.size()); }

void read_attributes(wire::Device::Reader from, Device& device) {
    for (auto attribute : from.getAttributes()) {
        if (attribute.getId() >= Device::k_attribute_ids) continue;
        device.attributes[attribute.getId()] = attribute.getValue();
        device.has_attribute[attribute.getId()] = true;
    }
}

void read_peers(wire::Device::Reader from, Device& device) {
    for (auto peer : from.getPeers()) {
        if (peer.getDevice() >= k_max_devices) continue;
        if (peer.getDevice() >= device.peers.size()) device.peers.resize(peer.getDevice() + 1);
        Device::Peer& to = device.peers[peer.getDevice()];
        to.can_access = peer.getCanAccess();
        for (auto attribute : peer.getAttributes()) {
            if (attribute.getId() < to.attributes.size()) to.attributes[attribute.getId()] = attribute.getValue();
        }
    }
}

/// What the client cannot do for the program, whatever the device can.
void hide_unsupported(Device& device) {
    constexpr CUdevice_attribute k_hidden[] = {
        // The program's memory is not the device's.
        CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_NUMA_CONFIG,  // nodes of the server's machine
        // Other devices and drivers of the program's machine.
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
        CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
        // Calls that are refused.
        CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
        CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH,
    };
    for (CUdevice_attribute id : k_hidden) device.attributes[id] = 0;
    // What CUDA has added up to 13.5 is of that kind, too, but for a size and an operation; what comes later is not known here.
    constexpr size_t k_first_added = CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED + 1;
    constexpr size_t k_oversized_shared_memory = 150, k_last_known = 161;
    for (size_t id = k_first_added; id < Device::k_attribute_ids; ++id) {
        if (id != k_oversized_shared_memory && id != cuda::abi::k_atomic_reduction_supported) device.attributes[id] = 0;
        if (id > k_last_known) device.has_attribute[id] = false;
    }
    // "Returns -1 when system does not support NUMA" (CUDA Driver API, CUdevice_attribute).
    device.attributes[CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID] = device.attributes[CU_DEVICE_ATTRIBUTE_NUMA_ID] = -1;
    device.attributes[CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1;
    // Kernels use a copy of what is registered.
    device.attributes[CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED] = 1;
}

/// What processes can share depends on the server, too: a client's memory has handles where it is mapped.
void settle_sharing(Device& device, bool shares, bool maps) {
    int& files = device.attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED];
    if (!shares) device.attributes[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 0;
    if (!shares || !maps) files = 0;
    device.attributes[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] =
        files != 0 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
}

Device read_device(wire::Device::Reader from) {
    Device device;
    device.name = text(from.getName());
    device.total_bytes = from.getTotalMemoryBytes();
    auto uuid = from.getUuid();
    std::copy_n(uuid.begin(), std::min<size_t>(uuid.size(), sizeof device.uuid.bytes),
                reinterpret_cast<uint8_t*>(device.uuid.bytes));
    auto luid = from.getLuid();
    std::copy_n(luid.begin(), std::min<size_t>(luid.size(), device.luid.size()),
                reinterpret_cast<uint8_t*>(device.luid.data()));
    device.major = from.getComputeMajor();
    device.minor = from.getComputeMinor();
    read_attributes(from, device);
    device.pci_bus_id = text(from.getPciBusId());
    for (auto limit : from.getLimits()) {
        if (limit.getId() >= 32 || limit.getResult() != 0) continue;
        if (limit.getId() >= device.limits.size()) device.limits.resize(limit.getId() + 1);
        device.limits[limit.getId()] = limit.getValue();
    }
    device.least_priority = from.getLeastPriority();
    device.greatest_priority = from.getGreatestPriority();
    read_peers(from, device);
    hide_unsupported(device);
    return device;
}

DriverKind driver_kind(wire::DriverKind kind) {
    switch (kind) {
        case wire::DriverKind::NVIDIA: return DriverKind::nvidia;
        case wire::DriverKind::SOFTWARE: return DriverKind::software;
        default: return DriverKind::unknown;
    }
}

}  // namespace

Result<protocol::Buffer> make_hello(const ConnectionSettings& settings, bool shares_memory) {
    return protocol::build_message<wire::Hello>([&](wire::Hello::Builder hello) {
        hello.setVersionMin(protocol::k_protocol_version_min);
        hello.setVersionMax(protocol::k_protocol_version_max);
        hello.setClientVersion(WARPLINE_VERSION);
        hello.setProgram(settings.program);
        hello.setPid(static_cast<uint32_t>(::getpid()));
        hello.setHost(host_name());
        hello.setWindowAddress(settings.window_base);
        hello.setWindowBytes(settings.window_bytes);
        hello.setDriverVersion(CUDA_VERSION);
        hello.setVisibleDevices(settings.visible_devices);
        hello.setMemoryBytes(settings.memory_bytes);
        hello.setReported(settings.reported);
        hello.setWantsExecuted(trace::is_on());
        hello.setSharesMemory(shares_memory);
        hello.setWantsUploads(settings.switches.uses(config::Optimisation::cache));
        hello.setCodecs(settings.compression.codecs);
        if (const auto& forced = settings.compression.forced) {
            hello.setForcedCodec(static_cast<uint8_t>(forced->codec));
            hello.setForcedLevel(static_cast<uint8_t>(forced->level));
        }
    });
}

Result<ServerInfo> read_hello_reply(BytesView body, protocol::CreditLimits& credit, std::string& why) {
    return protocol::read_message<wire::HelloReply>(body, [&](wire::HelloReply::Reader reply) -> Result<ServerInfo> {
        if (reply.getVersion() == 0) {
            why = text(reply.getError());
            auto code = static_cast<Code>(reply.getErrorCode());
            if (code == Code::ok || code > Code::internal) code = Code::connect_refused;
            return Error{code, "the server refused the session"};
        }
        ServerInfo info;
        info.name = text(reply.getServerName());
        info.version = text(reply.getServerVersion());
        info.tenant = text(reply.getTenant());
        info.driver_version = reply.getDriverVersion();
        info.driver_kind = driver_kind(reply.getDriverKind());
        // Servers from before there was the field say nothing.
        info.takes_machine_code = reply.getTakesMachineCode() || info.driver_kind != DriverKind::software;
        info.window_base = reply.getWindowAddress();
        info.window_bytes = reply.getWindowBytes();
        info.memory_credit_bytes = reply.getMemoryCreditBytes();
        if (reply.getDevices().size() > k_max_devices) return Error{Code::malformed, "too many devices"};
        for (auto device : reply.getDevices()) {
            info.devices.push_back(read_device(device));
            info.devices.back().ordinal = static_cast<int>(info.devices.size()) - 1;
        }
        for (Device& device : info.devices) {
            if (info.window_bytes == 0) device.attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 0;
            settle_sharing(device, reply.getShares(), info.window_bytes != 0);
        }
        auto limits = reply.getLimits();
        if (limits.getCreditBytes() != 0) credit.bytes = limits.getCreditBytes();
        if (limits.getCreditCalls() != 0) credit.calls = limits.getCreditCalls();
        info.memory_limit_bytes = limits.getMemoryBytes();
        info.bulk_lanes = limits.getBulkLanes();
        info.lanes_may_end = limits.getLanesMayEnd();
        info.remembered_calls = limits.getRememberedCalls();
        info.codecs = reply.getCodecs();
        const auto key = reply.getUploads().getKey();
        const uint64_t chunk_bytes = reply.getUploads().getChunkBytes();
        if (key.size() == info.uploads.key.size() && chunk_bytes >= k_least_chunk_bytes && chunk_bytes <= k_most_chunk_bytes) {
            std::copy(key.begin(), key.end(), info.uploads.key.begin());
            info.uploads.chunk_bytes = chunk_bytes;
            info.uploads.stored_bytes = reply.getUploads().getStoredBytes();
        }
        return info;
    });
}

}  // namespace warpline::client
