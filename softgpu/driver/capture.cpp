#include "softgpu/driver/capture.h"

namespace warpline::softgpu::driver {
CUresult record_event(Stream& stream, const EventPtr& event, CUevent handle, bool external) {
    (void)handle;
    (void)external;
    event->record(stream.submit_always({}));
    return CUDA_SUCCESS;
}
CUresult wait_for_event(Stream& stream, const EventPtr& event, CUevent handle, bool external) {
    (void)handle;
    (void)external;
    FencePtr fence = event->fence();
    if (fence == nullptr || fence->done()) return CUDA_SUCCESS;
    stream.submit_always({}, std::span(&fence, 1));
    return CUDA_SUCCESS;
}
}  // namespace warpline::softgpu::driver
