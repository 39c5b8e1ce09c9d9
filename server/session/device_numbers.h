// The client's numbers of devices in structures, and the driver's.
#pragma once

#include <vector>

#include "cuda/abi/stream_values.h"
#include "server/session/call.h"
#include "server/session/session.h"

/// Structures as the driver may see them. Devices are named by the client's number on the wire, by the driver's in the driver;
/// and what is a pointer of a client's, or a field that only drivers use, arrives as zero. All other types are left as they
/// are.
namespace warpline::server {

template <typename T>
bool to_driver(ServerCall&, T&) {
    return true;
}
inline bool to_driver(ServerCall& call, CUmemLocation& location) {
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return true;
    CUdevice device = 0;
    if (!call.find_device(location.id, device)) return false;
    location.id = device;
    return true;
}
inline bool to_driver(ServerCall& call, CUmemAllocationProp& properties) {
    properties.win32HandleMetaData = nullptr;
    return to_driver(call, properties.location);
}
inline bool to_driver(ServerCall& call, CUmemPoolProps& properties) {
    properties.win32SecurityAttributes = nullptr;
    return to_driver(call, properties.location);
}
inline bool to_driver(ServerCall&, CUstreamBatchMemOpParams& operation) {
    const bool waits =
        operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    const bool writes =
        operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    if (cuda::abi::is_reduction(operation)) {
        cuda::abi::AtomicReduction reduction = cuda::abi::reduction_of(operation);
        reduction.alias = 0;
        cuda::abi::set_reduction(operation, reduction);
    }
    if (waits) operation.waitValue.alias = 0;
    if (writes) operation.writeValue.alias = 0;
    return true;
}
inline bool to_driver(ServerCall& call, CUmemAccessDesc& access) { return to_driver(call, access.location); }
template <typename T>
bool to_driver(ServerCall& call, std::vector<T>& values) {
    for (T& value : values) {
        if (!to_driver(call, value)) return false;
    }
    return true;
}

template <typename T>
void to_client(ServerCall&, T&) {}
inline void to_client(ServerCall& call, CUmemAllocationProp& properties) {
    if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        static_cast<void>(call.session().contexts().client_device(properties.location.id, properties.location.id));
    }
}

}  // namespace warpline::server
