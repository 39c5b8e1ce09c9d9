// Marks in streams, every so many calls.
#include "server/objects/stream_queues.h"

namespace warpline::server {

namespace {

/// A stream of NVIDIA's driver takes 1,020 pieces of work of one kind, and fewer than 450 of copies to and fro (seen on an
/// H100). Here it has at most 128 calls, of which copies have an event of ours each: work for 300 us of the shortest kernels.
constexpr uint32_t k_calls_per_mark = 32;
constexpr size_t k_most_marks = 3;

}  // namespace

std::shared_ptr<StreamQueues::Marks> StreamQueues::enter(const Name& name) {
    if (m_last == nullptr || m_last_name != name) {
        m_last = &m_queues[name];
        m_last_name = name;
    }
    if (++m_last->calls < k_calls_per_mark) return nullptr;
    m_last->calls = 0;
    return m_last->marks;
}

void StreamQueues::wait_for_room(Marks& marks, CUstream stream) {
    StreamWatch::Mark here, first;
    if (m_watch.mark(stream, here) != CUDA_SUCCESS) return;  // what has failed says so in the call
    {
        MutexLock lock(marks.mutex);
        marks.marks.push_back(std::move(here));
        while (!marks.marks.empty() && m_watch.is_reached(marks.marks.front())) marks.marks.pop_front();
        if (marks.marks.size() <= k_most_marks) return;
        first = std::move(marks.marks.front());
        marks.marks.pop_front();
    }
    m_watch.wait(first);
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
