#include "server/session/async_copies.h"

#include <pthread.h>

#include <algorithm>
#include <bit>

#include "common/log/log.h"
#include "protocol/codec/outbox.h"
#include "server/session/session.h"

namespace warpline::server {

namespace {

/// A copy of up to this size leaves from the driver's callback; the frame takes a copy of the bytes. Larger ones would hold up
/// the stream while they are sent.
constexpr uint64_t k_small_bytes = 64 * 1024;
constexpr uint64_t k_smallest_staging_bytes = 64 * 1024;
constexpr unsigned k_event_words = 16;

}  // namespace

AsyncCopies::AsyncCopies(const Driver& driver, ClientPort& client, uint64_t max_staging_bytes)
    : m_driver(driver), m_client(client), m_max_staging_bytes(max_staging_bytes) {}

AsyncCopies::~AsyncCopies() {
    close();
    if (m_sender.joinable()) m_sender.join();
    for (auto& [capacity, data] : m_spare) {
        if (m_driver->cuMemFreeHost != nullptr) m_driver->cuMemFreeHost(data);
    }
}

std::byte* AsyncCopies::take_staging(uint64_t bytes, uint64_t& capacity) {
    capacity = std::max(k_smallest_staging_bytes, std::bit_ceil(std::max<uint64_t>(bytes, 1)));
    {
        MutexLock lock(m_mutex);
        for (;;) {
            const auto spare = m_spare.lower_bound(capacity);
            if (spare != m_spare.end() && spare->first <= capacity * 4) {
                capacity = spare->first;
                std::byte* data = spare->second;
                m_spare.erase(spare);
                return data;
            }
            if (m_closed) return nullptr;
            if (m_staging_bytes + capacity <= m_max_staging_bytes || m_staging_bytes == 0) break;
            if (!m_spare.empty()) {  // none of the right size: give one back and take another
                const auto last = std::prev(m_spare.end());
                const auto [unfit_bytes, unfit] = *last;
                m_spare.erase(last);
                // Freeing waits for the device, and so for host functions of ours that want the mutex.
                lock.unlock();
                m_driver->cuMemFreeHost(unfit);
                lock.lock();
                m_staging_bytes -= unfit_bytes;
                continue;
            }
            if (std::all_of(m_copies.begin(), m_copies.end(), [](const auto& item) { return item.second->repeats; }))
                return nullptr;
            m_changed.wait(m_mutex);
        }
        m_staging_bytes += capacity;
    }
    void* data = nullptr;
    const bool possible = m_driver->cuMemHostAlloc != nullptr && m_driver->cuMemFreeHost != nullptr;
    if (possible && m_driver->cuMemHostAlloc(&data, capacity, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS) {
        return static_cast<std::byte*>(data);
    }
    MutexLock lock(m_mutex);
    m_staging_bytes -= capacity;
    return nullptr;
}

AsyncCopies::Copy* AsyncCopies::begin(uint64_t call, uint64_t bytes, bool repeats) {
    uint64_t capacity = 0;
    std::byte* data = take_staging(bytes, capacity);
    if (data == nullptr) return nullptr;
    auto copy = std::unique_ptr<Copy>(new Copy{*this, call, data, bytes, capacity, repeats});
    Copy* result = copy.get();
    MutexLock lock(m_mutex);
    m_copies.emplace(result, std::move(copy));
    return result;
}

CUresult AsyncCopies::finish_in_stream(Copy* copy, CUstream stream) {
    return run_in_stream(copy, stream, &AsyncCopies::completed);
}
CUresult AsyncCopies::release_in_stream(Copy* copy, CUstream stream) {
    return run_in_stream(copy, stream, &AsyncCopies::released);
}

CUresult AsyncCopies::run_in_stream(Copy* copy, CUstream stream, CUhostFn function) {
    if (m_driver->cuLaunchHostFunc == nullptr) {
        cancel(copy);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    const CUresult result = m_driver->cuLaunchHostFunc(stream, function, copy);
    // The driver may still be using the staging memory: it is not used again.
    if (result != CUDA_SUCCESS)
        WL_LOG(debug, "copies", "call {}: cuLaunchHostFunc gives {}", copy->call, static_cast<int>(result));
    return result;
}

void AsyncCopies::cancel(Copy* copy) { recycle(copy); }

void CUDA_CB AsyncCopies::completed(void* copy) {
    auto* done = static_cast<Copy*>(copy);
    done->owner.complete(*done);
}

void CUDA_CB AsyncCopies::released(void* copy) {
    auto* done = static_cast<Copy*>(copy);
    done->owner.recycle(done);
}

void AsyncCopies::complete(Copy& copy) {
    if (copy.bytes <= k_small_bytes) {
        send(copy);
        if (!copy.repeats) recycle(&copy);
        return;
    }
    MutexLock lock(m_mutex);
    if (m_closed) return;
    m_queue.push_back(&copy);
    ++m_queued;
    m_to_send.fetch_add(1, std::memory_order_release);  // acquired in wait_queued
    if (!m_sender.joinable()) m_sender = std::thread([this] { sender_main(); });
    m_changed.notify_all();
    // The next launch of a graph must not overwrite what is still leaving.
    if (copy.repeats) {
        const uint64_t mine = m_queued;
        while (m_sent < mine && !m_closed) m_changed.wait(m_mutex);
    }
}

void AsyncCopies::send(Copy& copy) {
    const BytesView bytes{copy.data, copy.bytes};
    const bool in_frame = copy.bytes <= m_client.chunk_bytes();
    protocol::Outbox& outbox = m_client.outbox();
    if (!in_frame && !outbox.send_payload(copy.call, bytes).ok()) return;
    const auto sent = outbox.add_message<wire::Event>(
        protocol::FrameKind::event, k_event_words,
        [&](wire::Event::Builder event) {
            auto done = event.initCopyDone();
            done.setCall(copy.call);
            done.setResult(CUDA_SUCCESS);
            done.setBytes(copy.bytes);
        },
        in_frame ? bytes : BytesView{});
    if (!sent.ok()) WL_LOG(debug, "copies", "copy of call {} cannot be sent: {}", copy.call, sent.error().what);
}

void AsyncCopies::sender_main() {
    pthread_setname_np(pthread_self(), "copies");
    MutexLock lock(m_mutex);
    for (;;) {
        while (m_queue.empty() && !m_closed) m_changed.wait(m_mutex);
        if (m_closed) return;
        Copy* copy = m_queue.front();
        m_queue.pop_front();
        const bool repeats = copy->repeats;
        lock.unlock();
        send(*copy);
        if (!repeats) recycle(copy);
        lock.lock();
        ++m_sent;
        m_to_send.fetch_sub(1, std::memory_order_release);
        m_changed.notify_all();
    }
}

void AsyncCopies::recycle(Copy* copy) {
    MutexLock lock(m_mutex);
    const auto found = m_copies.find(copy);
    if (found == m_copies.end()) return;
    m_spare.emplace(copy->capacity, copy->data);
    m_copies.erase(found);
    m_changed.notify_all();
}

void AsyncCopies::wait_queued() {
    if (m_to_send.load(std::memory_order_acquire) == 0) return;
    MutexLock lock(m_mutex);
    const uint64_t until = m_queued;
    while (m_sent < until && !m_closed) m_changed.wait(m_mutex);
}

void AsyncCopies::close() {
    MutexLock lock(m_mutex);
    m_closed = true;
    m_changed.notify_all();
}

}  // namespace warpline::server
