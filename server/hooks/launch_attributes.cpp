#include "server/hooks/launch_attributes.h"

namespace warpline::server {

CUresult resolve_launch_attribute(ServerCall& call, CUlaunchAttributeID id, CUlaunchAttributeValue& value) {
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
        default: return CUDA_SUCCESS;
    }
}

CUresult read_attribute(ServerCall& call, CUlaunchAttributeID id, BytesView bytes, CUlaunchAttributeValue& value) {
    if (bytes.size() != sizeof value) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&value, bytes.data(), sizeof value);
    return resolve_launch_attribute(call, id, value);
}

}  // namespace warpline::server
