// What becomes of the server's answers and events, and of everybody who waits when the session ends.
#include "client/session/session.h"
#include "client/managed/faults.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "client/session/connection_to_server.h"
#include "client/session/threads.h"
#include "client/session/waiter.h"
#include "client/state/completion.h"
#include "client/trace/trace.h"
#include "common/base/uncancelled.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// More than this much unwritten device output, and the receiving thread writes it itself: the program may not be waiting for
/// anything.
constexpr size_t k_max_output_bytes = 8 << 20;

/// Errors after which CUDA answers every call with the same one until the device is reset.
bool is_sticky(int result) {
    switch (result) {
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_EXTERNAL_DEVICE:
        case CUDA_ERROR_DEVICE_UNAVAILABLE: return true;
        default: return false;
    }
}

/// TCP, TLS, Open, TLS of the first lane, Hello: docs/session.md#start.
constexpr uint32_t k_round_trips_to_start = 5;
constexpr uint32_t k_round_trips_to_end = 1;

/// Something of the session's in the trace that has lasted until now.
void note_until_now(trace::Event event) {
    event.end_ns = trace::now_ns();
    trace::note(event);
}

uint64_t inode_of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Session::Session(std::function<void(CUresult)> on_end)
    : m_connected_at(std::chrono::steady_clock::now()),
      m_on_end(std::move(on_end)),
      m_host_calls([this](uint64_t id) { calls().host_call_done(id); }) {}

Session::~Session() {
    // The receiving threads use everything else; the callbacks' thread, which they start, uses the connections.
    for (auto& connection : m_connections) connection->join();
    m_host_calls.join();
    m_graph_launches.clear();  // the user objects that they hold look for the callbacks' thread
}

Result<std::unique_ptr<Session>> Session::connect(const ConnectionSettings& settings, std::function<void(CUresult)> on_end,
                                                  std::string& why) {
    const uint64_t began = trace::now_ns();
    std::unique_ptr<Session> session(new Session(std::move(on_end)));
    session->m_connections.push_back(WL_TRY(ConnectionToServer::connect(*session, settings, why)));
    session->m_info = WL_TRY(session->calls().exchange_hello(settings, why));
    session->m_memory_credit.grant(0, session->m_info.memory_credit_bytes);
    session->m_connected_at = std::chrono::steady_clock::now();
    WL_TRY(session->establish(why));
    note_until_now({.kind = trace::EventKind::start, .name = "connect", .begin_ns = began, .count = k_round_trips_to_start});
    return session;
}

Result<void> Session::establish(std::string& why) {
    MutexLock lock(m_mutex);
    if (m_early_end) {
        why = log::format("{}: {}", m_info.address, m_early_end_text);
        return *m_early_end;
    }
    m_quiet.store(false);
    return {};
}

void Session::note_waiter(uint64_t number, Waiter& waiter) {
    waiter.number = number;
    MutexLock lock(m_mutex);
    m_waiters.emplace(number, &waiter);
}

CUresult Session::wait(Waiter& waiter, cuda::CallId call, unsigned schedule) {
    {
        MutexLock lock(m_waits_mutex);
        ++m_waits[call];
    }
    const uint64_t began = trace::is_on() ? trace::now_ns() : 0;
    calls().wait_for(waiter, schedule);
    if (began != 0) [[unlikely]]
        note_until_now({.kind = trace::EventKind::wait,
                        .name = cuda::call_name(call),
                        .begin_ns = began,
                        .first = waiter.number,
                        .bytes = waiter.received + waiter.reply.payload_view().size()});
    if (m_has_output.load(std::memory_order_acquire)) write_output();
    if (call != cuda::CallId::wlReadPages) m_news.fetch_add(1, std::memory_order_acq_rel);
    // A synchronisation tells of a kernel's failure by its own result: from then on every call does.
    if (is_sticky(waiter.result)) defer(waiter.result, waiter.context);
    return waiter.result;
}

CUresult Session::not_sent(const Error& error, Waiter* waiter) {
    if (waiter && waiter->number != 0) {
        bool registered = false;
        {
            MutexLock lock(m_mutex);
            registered = m_waiters.erase(waiter->number) != 0;
        }
        // The receiving thread has it already: it will signal, and the waiter must live until then.
        if (!registered) waiter->wait();
    }
    // Whatever ended the session, an orderly drain or bytes that make no sense: to the program its device has become
    // unavailable (docs/errors.md).
    const bool ended = calls().outbox().closed();
    if (ended && !m_quiet.load()) {
        // Known here before on_lost() comes to say so: no later call may succeed meanwhile, also none that is answered here.
        become_unavailable();
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
    if (!ended) WL_LOG(error, "client", "a call could not be sent: {} ({})", error.what, to_string(error.code));
    return static_cast<CUresult>(to_cu_result(error.code));
}

bool Session::has_other_threads() const {
    unsigned own = m_host_calls.threads() + trace::threads() + faults::threads();
    for (const auto& connection : m_connections) own += connection->threads();
    return client::has_other_threads(own);
}

Result<void> Session::on_reply(const ReplyHeader& header, protocol::Frame frame) {
    raise_to(m_freed_through, header.freed_through);
    if (header.memory_credit_bytes != 0) m_memory_credit.grant(header.memory_credit_device, header.memory_credit_bytes);
    // All that was complete by then came before this, and what is still on its way is not in front of it.
    if (header.result != CUDA_ERROR_NOT_READY) land_held(true);
    Waiter* waiter = nullptr;
    {
        MutexLock lock(m_mutex);
        auto it = m_waiters.find(header.call);
        if (it == m_waiters.end()) return Error{Code::malformed, "a reply to a call that nobody waits for"};
        waiter = it->second;
        m_waiters.erase(it);
    }
    CUresult result = header.result;
    m_payload_received.fetch_add(header.payload_bytes, std::memory_order_relaxed);
    BytesView payload = frame.payload_view();
    const CopyTarget& target = waiter->target;
    const bool whole = !waiter->wants_payload || target.collect || waiter->received + payload.size() == target.total_bytes();
    bool fits = payload.empty() || (waiter->wants_payload && waiter->place().write(waiter->received, payload));
    // What it came in front of has arrived before the reply.
    if (waiter->aside && whole && fits) fits = target.write(0, *waiter->aside);
    if (result == CUDA_SUCCESS && !(whole && fits)) {
        WL_LOG(error, "client", "the reply to call {} says success and has another number of bytes than were asked for",
               header.call);
        result = CUDA_ERROR_UNKNOWN;
    }
    waiter->reply = std::move(frame);
    // Before anybody can know what it says.
    if (!waiter->holds_thread()) m_news.fetch_add(1, std::memory_order_acq_rel);
    waiter->signal(result);
    return {};
}

void Session::on_async_error(uint64_t call, CUresult result, uint64_t context) {
    m_host_calls.refused(call);
    // A launch or a copy that failed has no other end.
    if (!end_graph_launch(call)) forget_copy(call);
    WL_LOG(info, "client", "call {} failed with {} after it had been accepted", call, static_cast<int>(result));
    m_failures.fetch_add(1, std::memory_order_release);
    defer(result, context);
}

void Session::defer(CUresult result, uint64_t context) {
    // The first of either kind. What does not stay is told before what does: memory that could not be had before the fault of
    // the kernel that used it.
    int none = 0;
    if (is_sticky(result)) {
        const bool is_first = m_failed.note(context, result);
        if (is_first && result == CUDA_ERROR_ILLEGAL_ADDRESS && m_explain_illegal_address) m_explain_illegal_address();
    } else if (m_failed.error_of(context) == CUDA_SUCCESS)
        m_deferred.compare_exchange_strong(none, result);
}

void Session::become_unavailable() {
    m_deferred.store(0);
    m_failed.note_lost(CUDA_ERROR_DEVICE_UNAVAILABLE);
}

CUresult Session::take_deferred(CUresult result, uint64_t context) {
    const CUresult sticky = m_failed.error_of(context);
    // A call's own error goes before a deferred one, unless it is but what stays.
    if (result == CUDA_SUCCESS || (sticky != CUDA_SUCCESS && is_sticky(result))) {
        const int deferred = m_deferred.exchange(0);
        if (deferred != 0) return static_cast<CUresult>(deferred);
    }
    return sticky != CUDA_SUCCESS ? sticky : result;
}

void Session::note_told(uint64_t identity) {
    MutexLock lock(m_told_mutex);
    if (identity != m_told_identity) m_told_others = m_told;
    m_told_identity = identity;
    m_told = last_number();
}

uint64_t Session::told_of_others(uint64_t identity) const {
    MutexLock lock(m_told_mutex);
    return identity == 0 || identity != m_told_identity ? m_told : m_told_others;
}

bool Session::take_watch() {
    if (m_watches.fetch_add(1, std::memory_order_relaxed) < k_max_watches) return true;
    end_watch(CUDA_SUCCESS, FailedContexts::k_all);
    return false;
}

void Session::end_watch(CUresult result, uint64_t context) {
    if (is_sticky(result)) defer(result, context);
    m_watches.fetch_sub(1, std::memory_order_relaxed);
}

void Session::on_output(int stream, BytesView text) {
    MutexLock lock(m_output_mutex);
    m_output.emplace_back(stream, std::string(as_text(text)));
    m_output_bytes += text.size();
    while (m_output_bytes > k_max_output_bytes && m_output.size() > 1) {
        // As with CUDA's own buffer, what nobody waits for is lost from its beginning. The receiving thread must not wait for
        // the program's standard output.
        if (!std::exchange(m_output_lost, true))
            WL_LOG(warn, "client", "device output was lost: more than {} bytes without a synchronisation", k_max_output_bytes);
        m_output_bytes -= m_output.front().second.size();
        m_output.pop_front();
    }
    // Released here, acquired in wait(): a waiter of a later reply sees the output.
    m_has_output.store(true, std::memory_order_release);
}

void Session::write_output() {
    // Held while writing, so that two threads do not turn the order round. m_output_mutex is not: who writes waits for as long
    // as nobody reads the program's standard output, and the receiving thread, with the heartbeat, must not wait for it.
    MutexLock turn(m_writing_mutex);
    std::deque<std::pair<int, std::string>> texts;
    {
        MutexLock lock(m_output_mutex);
        texts.swap(m_output);
        m_output_bytes = 0;
    }
    for (const auto& [stream, text] : texts) {
        FILE* file = stream == 2 ? stderr : stdout;
        std::fwrite(text.data(), 1, text.size(), file);
    }
    // Only now: who waits for a later reply waits for its turn here, until its output has been written.
    MutexLock lock(m_output_mutex);
    if (m_output.empty()) m_has_output.store(false, std::memory_order_release);
}

void Session::say_lost(const Error& error, const std::string& explanation) {
    if (m_quiet.load() || m_said_lost.exchange(true)) return;
    WL_LOG(error, "client", "lost the session with {}: {}; every CUDA call now fails with CUDA_ERROR_DEVICE_UNAVAILABLE",
           m_info.address, explanation.empty() ? std::string(error.what) : explanation);
}

void Session::on_lost(const Error& error, const std::string& explanation) {
    std::unordered_map<uint64_t, Waiter*> waiters;
    const std::string text = explanation.empty() ? std::string(error.what) : explanation;
    bool quiet = false;
    std::map<uint64_t, GraphLaunch> launches;
    {
        MutexLock lock(m_mutex);
        quiet = m_quiet.load();
        if (quiet) {
            m_early_end = error;
            m_early_end_text = text;
        }
        waiters.swap(m_waiters);
        m_copies.clear();
        m_held.clear();
        launches.swap(m_graph_launches);
        count_copies();
    }
    m_host_calls.stop();
    if (!quiet) {
        say_lost(error, text);
        become_unavailable();
        m_on_end(CUDA_ERROR_DEVICE_UNAVAILABLE);
    }
    // The process ends: its threads go on waiting, as they would for a GPU. Who would return now returns to a libcudart that
    // has ended, and crashes there.
    const bool finishing = m_finishing.load();
    for (auto& [number, waiter] : waiters)
        if (!finishing || !waiter->holds_thread()) waiter->signal(CUDA_ERROR_DEVICE_UNAVAILABLE);
}

void Session::report_to(net::Socket watcher, SessionReport report) {
    m_watcher = std::move(watcher);
    m_watcher_inode = inode_of(m_watcher.fd());
    m_report = std::move(report);
    m_report.session = m_info.session_id;
    m_report.session_key = m_info.key;
    m_report.server = m_info.dialled;
    send_report();
}

void Session::send_report() {
    // A program may have closed all descriptors that it does not know, and have something else there.
    if (!m_watcher.valid() || inode_of(m_watcher.fd()) != m_watcher_inode) return;
    const Uncancelled uncancelled;
    const auto message = encode_report(m_report);
    const auto sent = message.ok() ? ::send(m_watcher.fd(), message->data(), message->size(), MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
    if (sent < 0) WL_LOG(info, "client", "who watches this process cannot be told of the session");
}

void Session::finish() {
    if (m_quiet.exchange(true)) return;
    m_finishing.store(true);
    const uint64_t began = trace::now_ns();
    bool heard = true;
    for (auto& connection : m_connections) heard = connection->finish() && heard;
    note_until_now({.kind = trace::EventKind::start, .name = "goodbye", .begin_ns = began, .count = k_round_trips_to_end});
    // What the server has not heard, it is told when the process has ended.
    m_report.finished = heard;
    if (heard) send_report();
    write_output();
}

SessionStats Session::stats() const {
    SessionStats stats;
    {
        MutexLock lock(m_waits_mutex);
        stats.waits = m_waits;
    }
    for (const auto& [call, count] : stats.waits) stats.blocking_round_trips += count;
    stats.payload_bytes_received = m_payload_received.load();
    for (const auto& connection : m_connections) {
        protocol::Link& link = connection->link();
        protocol::Outbox::Counters counters = link.outbox().counters();
        stats.frames_sent += counters.frames;
        stats.frames_received += connection->frames_received();
        stats.bytes_sent += counters.bytes;
        stats.bytes_received += connection->bytes_received();
        stats.payload_bytes_sent += counters.payload_bytes;
        stats.encoded_sent = link.outbox().encoding().sent();
        stats.encoded_received = link.outbox().encoding().received();
        if (const auto* shared = link.outbox().encoding().shared()) stats.shared_bytes_sent += shared->bytes();
        stats.shared_bytes_received += link.shared_bytes_received();
        stats.offers = link.outbox().offer_counters();
        stats.batches += counters.batches;
        stats.calls_sent += counters.calls;
        stats.calls_alike += counters.calls_alike;
        stats.credit_waits += counters.credit_waits;
        stats.reconnects += connection->reconnects();
        stats.frames_again += counters.frames_again;
        stats.link = link.quality();
        stats.bulk_links = connection->bulk_link_qualities();
    }
    stats.seconds_connected = std::chrono::duration<double>(std::chrono::steady_clock::now() - m_connected_at).count();
    return stats;
}

}  // namespace warpline::client
