// Which attributes the driver may see, with handles in place of tokens.
#include "server/hooks/launch_attributes.h"

#include "cuda/abi/newer_values.h"
#include "server/session/regions.h"

namespace warpline::server {

CUresult resolve_launch_attribute(ServerCall& call, CUlaunchAttributeID id, CUlaunchAttributeValue& value) {
    // Numbers, too.
    if (id == cuda::abi::k_portable_cluster_size_mode || id == cuda::abi::k_launch_shared_memory_mode) return CUDA_SUCCESS;
    switch (id) {
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: {
            CUevent& event = value.programmaticEvent.event;
            event = WL_FIND(call, CUevent, event, handle_to_value(event));
            return CUDA_SUCCESS;
        }
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
            CUevent& event = value.launchCompletionEvent.event;
            event = WL_FIND(call, CUevent, event, handle_to_value(event));
            return CUDA_SUCCESS;
        }
        // Its answer is a handle for the device, written through a pointer of the client's.
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
            WL_LOG(warn, "server",
                   "the launch attribute 'device-updatable kernel node' is not supported: its handle cannot travel");
            return CUDA_ERROR_NOT_SUPPORTED;
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: return check_attribute(call, id, value);
        // Numbers, all of them.
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING: return CUDA_SUCCESS;
        // Whatever comes later may hold handles or pointers.
        default:
            WL_LOG(warn, "server", "launch attribute {} is unknown here and refused", static_cast<int>(id));
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult read_attribute(ServerCall& call, CUlaunchAttributeID id, BytesView bytes, CUlaunchAttributeValue& value) {
    if (bytes.size() != sizeof value) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&value, bytes.data(), sizeof value);
    return resolve_launch_attribute(call, id, value);
}

}  // namespace warpline::server
