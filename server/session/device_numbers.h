#pragma once

#include <vector>

#include "server/session/call.h"
#include "server/session/session.h"

/// Structures that name a device by its number: the client's on the wire, the driver's in the driver. All other types are left
/// as they are.
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
inline bool to_driver(ServerCall& call, CUmemAllocationProp& properties) { return to_driver(call, properties.location); }
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
