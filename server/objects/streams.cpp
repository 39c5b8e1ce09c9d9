// Making streams for the client's threads.
#include "server/objects/streams.h"

namespace warpline::server {

CUresult Streams::of_thread(uint32_t thread, uint64_t context, CUstream& stream) {
    MutexLock lock(m_mutex);
    const auto found = m_streams.find({thread, context});
    if (found != m_streams.end()) {
        stream = found->second;
        return CUDA_SUCCESS;
    }
    if (m_streams.size() >= k_max_thread_streams) return CUDA_ERROR_OUT_OF_MEMORY;
    if (m_driver->cuStreamCreate == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    // A per-thread default stream waits for the legacy one, and the reverse; ours has nothing to do with it.
    const bool ours = thread == k_own_thread || thread == k_pages_thread;
    const CUresult result = m_driver->cuStreamCreate(&stream, ours ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    if (result == CUDA_SUCCESS) m_streams[{thread, context}] = stream;
    return result;
}

bool Streams::exists(uint32_t thread, uint64_t context) {
    MutexLock lock(m_mutex);
    return m_streams.contains({thread, context});
}

std::vector<CUstream> Streams::of_context(uint64_t context) {
    std::vector<CUstream> streams;
    MutexLock lock(m_mutex);
    for (const auto& [key, stream] : m_streams) {
        if (key.second == context) streams.push_back(stream);
    }
    return streams;
}

void Streams::thread_ended(uint32_t thread) {
    MutexLock lock(m_mutex);
    for (auto it = m_streams.lower_bound({thread, 0}); it != m_streams.end() && it->first.first == thread;) {
        if (m_driver->cuStreamDestroy_v2 != nullptr) m_driver->cuStreamDestroy_v2(it->second);
        it = m_streams.erase(it);
    }
}

void Streams::context_ended(uint64_t context) {
    MutexLock lock(m_mutex);
    std::erase_if(m_streams, [context](const auto& item) { return item.first.second == context; });
}

}  // namespace warpline::server
