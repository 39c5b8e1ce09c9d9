// Sending what streams have copied, from the thread that learns it or another.
#include "server/objects/async_copies.h"

#include <pthread.h>

#include <algorithm>

#include "common/log/log.h"
#include "protocol/codec/outbox.h"
#include "server/objects/client_port.h"
#include "server/objects/send_event.h"

namespace warpline::server {

namespace {

/// A copy of up to this size leaves at once; the frame takes a copy of the bytes. Larger ones would hold up those of other
/// streams while they are sent.
constexpr uint64_t k_small_bytes = 64 * 1024;

}  // namespace

AsyncCopies::AsyncCopies(const Driver& driver, ClientPort& client, StreamWatch& watch, uint64_t max_staging_bytes)
    : m_client(client), m_watch(watch), m_staging(driver, max_staging_bytes) {}

AsyncCopies::~AsyncCopies() {
    close();
    if (m_sender.joinable()) m_sender.join();
}

/// True if no copy that is under way will ever give its memory back by itself.
bool AsyncCopies::all_stay() {
    MutexLock lock(m_mutex);
    return m_closed || std::all_of(m_copies.begin(), m_copies.end(), [](const auto& item) { return item.second->repeats; });
}

std::byte* AsyncCopies::take_staging(uint64_t bytes) {
    for (;;) {
        const uint64_t seen = m_staging.generation();
        if (std::byte* data = m_staging.try_take(bytes)) return data;
        m_watch.collect();  // what streams have done with
        if (std::byte* data = m_staging.try_take(bytes)) return data;
        // The last copies may have ended since, and given back what is wanted.
        if (!m_staging.grow(bytes) && all_stay()) return m_staging.try_take(bytes);
        const StreamWatch::Hurry hurry(m_watch);
        m_staging.wait_change(seen);
    }
}

AsyncCopies::Copy* AsyncCopies::begin(uint64_t call, uint64_t bytes, bool repeats) {
    std::byte* data = take_staging(bytes);
    if (data == nullptr) return nullptr;
    auto copy = std::unique_ptr<Copy>(new Copy{*this, call, data, bytes, repeats});
    Copy* result = copy.get();
    MutexLock lock(m_mutex);
    m_copies.emplace(result, std::move(copy));
    return result;
}

CUresult AsyncCopies::finish_in_stream(Copy* copy, CUstream stream) {
    // Not given back if the driver cannot tell when it has done with it.
    return m_watch.add(stream, StreamWatch::Urgency::soon,
                       [this, copy](CUresult result) { result == CUDA_SUCCESS ? complete(*copy) : fail(*copy, result); });
}

CUresult AsyncCopies::release_in_stream(Copy* copy, CUstream stream) {
    return m_watch.add(stream, StreamWatch::Urgency::whenever, [this, copy](CUresult) { recycle(copy); });
}

void AsyncCopies::cancel(Copy* copy) { recycle(copy); }

void CUDA_CB AsyncCopies::completed(void* copy) {
    auto* done = static_cast<Copy*>(copy);
    done->owner.complete(*done);
}

/// The stream failed before the copy, or in it. The device does nothing more in that context: the memory is free.
void AsyncCopies::fail(Copy& copy, CUresult result) {
    const auto sent = send_event(m_client.outbox(), [&](wire::Event::Builder event) {
        auto done = event.initCopyDone();
        done.setCall(copy.call);
        done.setResult(static_cast<int32_t>(result));
    });
    if (!sent.ok()) WL_LOG(debug, "copies", "the end of copy {} cannot be told: {}", copy.call, sent.error().what);
    recycle(&copy);
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
    const auto sent = send_event(
        outbox,
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
    m_staging.give(copy->data);
    m_copies.erase(found);
}

void AsyncCopies::wait_queued() {
    m_watch.collect();
    wait_sent();
}

void AsyncCopies::wait_queued_in_host_function() {
    m_watch.collect_for_host_function();
    wait_sent();
}

void AsyncCopies::wait_sent() {
    if (m_to_send.load(std::memory_order_acquire) == 0) return;
    MutexLock lock(m_mutex);
    const uint64_t until = m_queued;
    while (m_sent < until && !m_closed) m_changed.wait(m_mutex);
}

void AsyncCopies::close() {
    m_staging.close();
    MutexLock lock(m_mutex);
    m_closed = true;
    m_changed.notify_all();
}

}  // namespace warpline::server
