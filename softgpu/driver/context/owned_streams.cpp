// The streams of a context: who they are, and what they wait for.
#include "softgpu/driver/context/owned_streams.h"

#include <algorithm>
#include <utility>

#include "softgpu/driver/context/stream.h"

namespace warpline::softgpu::driver {

namespace {

std::vector<StreamPtr> living(const std::vector<std::weak_ptr<Stream>>& streams) {
    std::vector<StreamPtr> found;
    for (const auto& weak : streams) {
        if (auto stream = weak.lock()) found.push_back(std::move(stream));
    }
    return found;
}

void forget_done(std::vector<FencePtr>& fences) {
    std::erase_if(fences, [](const FencePtr& fence) { return fence->done(); });
}

}  // namespace

void OwnedStreams::add(const StreamPtr& stream) {
    std::vector<FencePtr> awaited;
    {
        MutexLock lock(m_mutex);
        std::erase_if(m_streams, [](const auto& weak) { return weak.expired(); });
        m_streams.push_back(stream);
        forget_done(m_awaited);
        awaited = m_awaited;
    }
    if (!awaited.empty()) stream->submit_always({}, awaited);
}

void OwnedStreams::hold_until(const FencePtr& fence) {
    std::vector<StreamPtr> streams;
    {
        MutexLock lock(m_mutex);
        forget_done(m_awaited);
        m_awaited.push_back(fence);
        streams = living(m_streams);
    }
    for (const StreamPtr& stream : streams) stream->submit_always({}, std::span(&fence, 1));
}

std::vector<StreamPtr> OwnedStreams::all() const {
    MutexLock lock(m_mutex);
    return living(m_streams);
}

std::vector<StreamPtr> OwnedStreams::give_up() {
    MutexLock lock(m_mutex);
    return living(std::exchange(m_streams, {}));
}

}  // namespace warpline::softgpu::driver
