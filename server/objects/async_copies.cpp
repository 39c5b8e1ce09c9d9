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
/// Of one call, between the device and the outbox: enough that both are busy.
constexpr size_t k_most_parts = 8;

}  // namespace

AsyncCopies::AsyncCopies(const Driver& driver, ClientPort& client, StreamWatch& watch, uint64_t max_staging_bytes)
    : m_client(client), m_watch(watch), m_staging(driver, max_staging_bytes) {}

AsyncCopies::~AsyncCopies() {
    close();
    if (m_sender.joinable()) m_sender.join();
}

/// True if none of the memory that is taken will ever be given back by itself: what the outbox has will be.
bool AsyncCopies::all_stay() {
    const size_t taken = m_staging.taken();
    MutexLock lock(m_mutex);
    const auto stays = [](const auto& item) { return item.second->stays; };
    return m_closed || std::cmp_greater_equal(std::count_if(m_copies.begin(), m_copies.end(), stays), taken);
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

protocol::Place AsyncCopies::take(uint64_t bytes) {
    std::byte* data = take_staging(bytes);
    if (data == nullptr) return {};
    return {{data, bytes}, m_staging};
}

AsyncCopies::Copy* AsyncCopies::begin(uint64_t call, uint64_t bytes, bool stays) {
    protocol::Place memory = take(bytes);
    std::byte* const data = memory.data();
    if (data == nullptr) return nullptr;
    auto copy = std::unique_ptr<Copy>(new Copy{*this, call, std::move(memory), data, bytes, stays});
    Copy* result = copy.get();
    MutexLock lock(m_mutex);
    m_copies.emplace(result, std::move(copy));
    return result;
}

AsyncCopies::Copy* AsyncCopies::begin_part(uint64_t call, std::shared_ptr<Parts> parts, uint64_t offset, uint64_t bytes,
                                           uint64_t total_bytes) {
    {
        MutexLock lock(m_mutex);
        while (!m_closed && parts->under_way >= k_most_parts) m_changed.wait(m_mutex);
    }
    Copy* part = begin(call, bytes, false);
    if (part == nullptr) return nullptr;
    MutexLock lock(m_mutex);
    ++parts->under_way;
    part->parts = std::move(parts);
    part->offset = offset;
    part->total_bytes = total_bytes;
    return part;
}

CUresult AsyncCopies::finish_in_stream(Copy* copy, CUstream stream) {
    // Not given back if the driver cannot tell when it has done with it.
    return m_watch.add(stream, StreamWatch::Urgency::soon,
                       [this, copy](CUresult result) { result == CUDA_SUCCESS ? complete(*copy) : fail(*copy, result); });
}

CUresult AsyncCopies::release_in_stream(Copy* copy, CUstream stream) {
    return m_watch.add(stream, StreamWatch::Urgency::whenever, [this, copy](CUresult) { recycle(copy); });
}

CUresult AsyncCopies::release_in_stream(protocol::Place place, CUstream stream) {
    const auto held = std::make_shared<protocol::Place>(std::move(place));
    const CUresult result = m_watch.add(stream, StreamWatch::Urgency::whenever, [held](CUresult) { held->clear(); });
    if (result != CUDA_SUCCESS) held->forget();
    return result;
}

void AsyncCopies::cancel(Copy* copy) { recycle(copy); }

void CUDA_CB AsyncCopies::completed(void* copy) {
    auto* done = static_cast<Copy*>(copy);
    done->owner.complete(*done);
}

/// The stream failed before the copy, or in it. The device does nothing more in that context: the memory is free.
void AsyncCopies::fail(Copy& copy, CUresult result) {
    // The end of a copy in parts is told behind those that were sent.
    copy.failure = result;
    if (copy.is_part() && copy.is_last()) return complete(copy);
    if (!copy.is_part()) tell_end(copy, 0, {});
    recycle(&copy);
}

/// @param sent_bytes  of the copy, in parts or in `payload`: the client waits for them
void AsyncCopies::tell_end(const Copy& copy, uint64_t sent_bytes, BytesView payload) {
    const auto sent = send_event(
        m_client.outbox(),
        [&](wire::Event::Builder event) {
            auto done = event.initCopyDone();
            done.setCall(copy.call);
            done.setResult(static_cast<int32_t>(copy.failure));
            done.setBytes(sent_bytes);
        },
        payload);
    if (!sent.ok()) WL_LOG(debug, "copies", "the end of copy {} cannot be told: {}", copy.call, sent.error().what);
}

void AsyncCopies::complete(Copy& copy) {
    // A part follows upon the one before it, which the sender may still have.
    if (copy.bytes <= k_small_bytes && !copy.is_part()) {
        send(copy);
        if (!copy.stays) recycle(&copy);
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
    if (copy.stays) {
        const uint64_t mine = m_queued;
        while (m_sent < mine && !m_closed) m_changed.wait(m_mutex);
    }
}

void AsyncCopies::send(Copy& copy) {
    if (copy.is_part()) return send_part(copy);
    const BytesView bytes{copy.data, copy.bytes};
    const bool in_frame = copy.bytes <= m_client.chunk_bytes();
    if (in_frame || m_client.outbox().send_payload(copy.call, bytes).ok())
        tell_end(copy, copy.bytes, in_frame ? bytes : BytesView{});
}

/// Its memory is the outbox's then.
void AsyncCopies::send_part(Copy& part) {
    if (part.failure == CUDA_SUCCESS) {
        if (!m_client.outbox().add_bulk(part.call, part.offset, part.total_bytes, std::move(part.memory)).ok()) return;
        note_sent(part);
    }
    if (part.is_last()) tell_end(part, sent_bytes(part), {});
}

void AsyncCopies::note_sent(const Copy& part) {
    MutexLock lock(m_mutex);
    part.parts->sent_bytes += part.bytes;
}

uint64_t AsyncCopies::sent_bytes(const Copy& part) {
    MutexLock lock(m_mutex);
    return part.parts->sent_bytes;
}

void AsyncCopies::sender_main() {
    pthread_setname_np(pthread_self(), "copies");
    MutexLock lock(m_mutex);
    for (;;) {
        while (m_queue.empty() && !m_closed) m_changed.wait(m_mutex);
        if (m_closed) return;
        Copy* copy = m_queue.front();
        m_queue.pop_front();
        const bool stays = copy->stays;
        lock.unlock();
        send(*copy);
        if (!stays) recycle(copy);
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
    if (copy->is_part()) {
        --copy->parts->under_way;
        m_changed.notify_all();
    }
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
