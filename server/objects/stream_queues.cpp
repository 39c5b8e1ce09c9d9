// Marks in streams, every so many calls.
#include "server/objects/stream_queues.h"

namespace warpline::server {

namespace {

/// A stream of NVIDIA's driver takes 1,020 pieces of work of one kind, and fewer than 450 of copies to and fro (seen on an
/// H100). Here it has at most 128 calls, of which copies have an event of ours each: work for 300 us of the shortest kernels.
constexpr uint32_t k_calls_per_mark = 32;
constexpr size_t k_most_marks = 3;

}  // namespace

StreamWatch::Mark StreamQueues::enter(const Name& name, FunctionRef<bool(CUstream&)> find) {
    if (m_last == nullptr || m_last_name != name) {
        m_last = &m_queues[name];
        m_last_name = name;
    }
    Queue& queue = *m_last;
    if (++queue.calls < k_calls_per_mark) return nullptr;
    queue.calls = 0;
    CUstream stream = nullptr;
    StreamWatch::Mark here;
    if (!find(stream) || m_watch.mark(stream, here) != CUDA_SUCCESS) return nullptr;
    queue.marks.push_back(std::move(here));
    while (!queue.marks.empty() && m_watch.is_reached(queue.marks.front())) queue.marks.pop_front();
    if (queue.marks.size() <= k_most_marks) return nullptr;
    StreamWatch::Mark first = std::move(queue.marks.front());
    queue.marks.pop_front();
    return first;
}

void StreamQueues::stream_ended(uint64_t token) {
    std::erase_if(m_queues, [token](const auto& queue) { return queue.first.token == token; });
    m_last = nullptr;
}

void StreamQueues::context_ended() {
    m_queues.clear();
    m_last = nullptr;
}

}  // namespace warpline::server
