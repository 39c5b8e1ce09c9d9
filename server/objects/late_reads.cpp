// Streams that wait for bytes of the client's, and the thread that asks for them.
#include "server/objects/late_reads.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "server/objects/client_port.h"
#include "server/objects/host_calls.h"
#include "server/objects/send_event.h"

namespace warpline::server {

namespace {

constexpr uint64_t k_gate_align = sizeof(uint64_t);

void open(uint32_t* gate) { std::atomic_ref(*gate).store(1, std::memory_order_release); }

}  // namespace

LateReads::~LateReads() {
    close();
    std::thread thread;
    {
        MutexLock lock(m_mutex);
        thread = std::move(m_thread);
    }
    if (thread.joinable()) thread.join();
}

CUresult LateReads::run(uint64_t call, uint64_t source, uint64_t bytes, CUstream stream,
                        FunctionRef<CUresult(const void*)> copy) {
    const uint64_t gate_at = (bytes + k_gate_align - 1) / k_gate_align * k_gate_align;
    // Nobody waits for memory that it gives back: what lets the stream come to it may be a later call.
    AsyncCopies::Copy* staging = m_copies.begin(call, gate_at + 2 * sizeof(uint32_t), true);
    if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    auto* const gate = reinterpret_cast<uint32_t*>(staging->data + gate_at);
    gate[0] = 0;
    open(&gate[1]);
    Read read{staging, bytes, gate, !has_gates(stream, &gate[1])};
    {
        MutexLock lock(m_mutex);
        if (m_closed) open(gate);
        if (!m_reads.emplace(source, read).second) {
            m_copies.cancel(staging);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    CUresult result = read.by_function ? hold_by_function(stream, source) : hold(stream, source, read);
    if (result == CUDA_SUCCESS) result = copy(staging->data);
    const CUresult watched = m_watch.add(stream, StreamWatch::Urgency::whenever, [this, source](CUresult) { forget(source); });
    return result == CUDA_SUCCESS ? watched : result;
}

/// Tried once, with a wait that is over when it begins.
bool LateReads::has_gates(CUstream stream, uint32_t* open) {
    if (m_gates.load() == Gates::not_asked) m_gates.store(wait_for(stream, open) == CUDA_SUCCESS ? Gates::yes : Gates::no);
    return m_gates.load() == Gates::yes;
}

CUresult LateReads::wait_for(CUstream stream, uint32_t* gate) const {
    const auto address_of = m_driver->cuMemHostGetDevicePointer_v2;
    const auto wait = m_driver->cuStreamWaitValue32_v2;
    if (address_of == nullptr || wait == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    CUdeviceptr address = 0;
    const CUresult result = address_of(&address, gate, 0);
    return result == CUDA_SUCCESS ? wait(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ) : result;
}

CUresult LateReads::hold(CUstream stream, uint64_t source, const Read& read) {
    const auto arrived = [this, source](CUresult result) {
        if (result == CUDA_SUCCESS) wish(source);
    };
    const CUresult watched = m_watch.add(stream, StreamWatch::Urgency::soon, arrived);
    return watched == CUDA_SUCCESS ? wait_for(stream, read.gate) : watched;
}

CUresult LateReads::hold_by_function(CUstream stream, uint64_t source) {
    if (m_driver->cuLaunchHostFunc == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    HostCalls::Ticket* ticket = m_host_calls.make_ticket(source, true);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = m_driver->cuLaunchHostFunc(stream, &HostCalls::run, ticket);
    if (result != CUDA_SUCCESS) m_host_calls.drop_ticket(ticket);
    return result;
}

bool LateReads::receive(uint64_t source, uint64_t offset, BytesView bytes) {
    MutexLock lock(m_mutex);
    const auto found = m_reads.find(source);
    if (found == m_reads.end()) return false;
    const Read& read = found->second;
    if (offset <= read.bytes && bytes.size() <= read.bytes - offset && !bytes.empty())
        std::memcpy(read.staging->data + offset, bytes.data(), bytes.size());
    return true;
}

bool LateReads::done(uint64_t source) {
    MutexLock lock(m_mutex);
    const auto found = m_reads.find(source);
    if (found == m_reads.end() || found->second.by_function) return false;
    open(found->second.gate);
    return true;
}

/// Its stream has passed it, or has failed.
void LateReads::forget(uint64_t source) {
    AsyncCopies::Copy* staging = nullptr;
    {
        MutexLock lock(m_mutex);
        const auto found = m_reads.find(source);
        if (found == m_reads.end()) return;
        staging = found->second.staging;
        m_reads.erase(found);
    }
    m_copies.cancel(staging);
}

void LateReads::wish(uint64_t source) {
    MutexLock lock(m_mutex);
    if (m_closed) return;
    m_wanted.push_back(source);
    if (!m_thread.joinable()) m_thread = std::thread([this] { thread_main(); });
    m_changed.notify_all();
}

void LateReads::thread_main() {
    pthread_setname_np(pthread_self(), "late-reads");
    MutexLock lock(m_mutex);
    for (;;) {
        while (m_wanted.empty() && !m_closed) m_changed.wait(m_mutex);
        if (m_closed) return;
        const uint64_t source = m_wanted.front();
        m_wanted.pop_front();
        lock.unlock();
        // What streams have copied to the client before is in its memory when that is read.
        m_copies.wait_queued();
        const auto asked = send_event(m_client.outbox(), [&](wire::Event::Builder event) {
            auto call = event.initHostCall();
            call.setId(source);
            call.setResult(CUDA_SUCCESS);
        });
        if (!asked.ok()) done(source);
        lock.lock();
    }
}

void LateReads::close() {
    MutexLock lock(m_mutex);
    m_closed = true;
    for (const auto& [source, read] : m_reads) open(read.gate);
    m_changed.notify_all();
}

}  // namespace warpline::server
