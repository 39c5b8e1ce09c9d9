// Replies and what comes before them; what ends with a context.
#include "server/session/session.h"

#include "common/log/log.h"
#include "cuda/abi/error_names.h"
#include "server/objects/send_event.h"
#include "server/session/batch_work.h"
#include "server/session/call.h"
#include "server/session/serve.h"

namespace warpline::server {

Session::Session(const Driver& driver, const std::vector<DeviceSnapshot>& devices, SessionCounters& counters,
                 ClientPort& client, protocol::CreditGrant& grant, SessionOptions options)
    : m_driver(driver),
      m_devices(devices),
      m_counters(counters),
      m_client(client),
      m_grant(grant),
      m_options(options),
      m_ledger(driver, devices, counters, options.memory),
      m_contexts(driver, devices, m_handles),
      m_functions(driver, m_handles),
      m_streams(driver),
      m_memory(driver, devices, m_ledger),
      m_look_first(options.look_first),
      m_watch(driver, m_look_first),
      m_freed(driver, m_memory, m_watch, m_handles, m_streams),
      m_copies(driver, client, m_watch, options.max_staging_bytes),
      m_host_calls(client, m_copies),
      m_late_reads(driver, m_copies, m_watch, m_host_calls, client),
      m_graph_copies(driver, m_copies, m_watch, m_host_calls, client),
      m_graph_memory(driver, m_ledger, m_contexts),
      m_executed(client),
      m_turn(counters.turn),
      m_executor({.source = client.work_source(), .turn = &m_turn}) {
    m_copies.staging().use_first(options.shared_staging);
    if (m_options.sharing != nullptr) m_memory.make_shareable();
}

Session::~Session() {
    m_host_calls.close();
    m_late_reads.close();
    m_watch.close();
    m_freed.close();
    m_copies.close();
    m_executor.stop();
    m_call_order.clear();
}

Result<void> Session::accept(protocol::CallReceiver::Unit unit) {
    auto work = WL_TRY(BatchWork::create(*this, std::move(unit)));
    if (!m_executor.push(std::move(work))) return Error{Code::quota, "more batches than the credit allows"};
    return {};
}

void Session::place_streams(const protocol::CallHeader& header, Footprint& footprint) {
    std::vector<Footprint::Touch>& touches = footprint.touches;
    for (const uint64_t stream : footprint.streams) {
        uint64_t context = header.context;
        if (stream <= 1) {
            // The legacy default stream waits for all blocking streams of its context, and they for it.
            footprint.make(legacy_key(context));
            continue;
        }
        bool blocking = true;
        if (stream == 2) {
            touches.push_back({thread_stream_key(header.thread, context), false, true, false});
        } else {
            touches.push_back({stream, false, true, false});
            if (const auto entry = m_handles.find(HandleKind::stream, stream)) {
                context = entry->scope;
                blocking = !entry->non_blocking;
            }
        }
        if (blocking && !footprint.only_asks) footprint.use(legacy_key(context));
    }
    if (!footprint.streams.empty() && !footprint.only_asks) touches.push_back({k_mapping_key, false, false, false});
    if (footprint.is_of_pages) touches.push_back({k_mapping_key, false, true, false});
    if (footprint.maps_memory) {
        touches.push_back({k_unmapping_key, false, false, false});
        touches.push_back({k_mapping_key, false, true, false});
    }
    if (footprint.unmaps_memory) touches.push_back({k_unmapping_key, false, true, false});
}

void Session::call_ended(uint64_t number) { m_executor.resume(m_call_order.ended(number)); }

Result<void> Session::push_last(std::function<void()> done) {
    if (m_executor.push(std::make_shared<LastWork>(m_call_order, std::move(done)))) return {};
    return Error{Code::quota, "more batches than the credit allows"};
}

void Session::connection_lost() {
    m_host_calls.close();
    m_late_reads.close();
    m_copies.close();
}

void Session::context_ends(uint64_t context) {
    CUcontext handle = nullptr;
    if (!m_contexts.is_made(context) || m_contexts.find(context, handle) != CUDA_SUCCESS) return;
    m_watch.end_context(handle);
    m_copies.staging().context_ended(handle);
    if (StagingMemory* arrivals = m_client.arrivals()) arrivals->context_ended(handle);
    m_staging_ready.store(false, std::memory_order_relaxed);
}

void Session::context_used(uint64_t context) {
    if (context == 0 || m_staging_ready.load(std::memory_order_relaxed) || m_staging_ready.exchange(true)) return;
    m_copies.staging().prepare();
    if (StagingMemory* arrivals = m_client.arrivals()) arrivals->prepare();
}

void Session::context_ended(uint64_t context) {
    m_contexts.forget_current();
    m_freed.context_ended(context);
    m_functions.context_ended(context);
    m_streams.context_ended(context);
    m_queues.context_ended();
    m_handles.remove_owned(context);
    m_values.owner_ended(context);
    images_ended();
}

void Session::images_ended() {
    m_functions.images_ended();
    m_memory.sweep_owned([this](uint64_t token) {
        return m_handles.find(HandleKind::module, token) || m_handles.find(HandleKind::library, token);
    });
}

bool Session::take_payload_room(uint64_t bytes) {
    if (bytes > m_options.max_whole_payload_bytes) return false;
    const uint64_t before = m_payload_bytes.fetch_add(bytes, std::memory_order_relaxed);
    if (before + bytes <= m_options.max_payload_bytes_in_all) return true;
    give_payload_room(bytes);
    return false;
}

void Session::work_done(uint64_t bytes, uint32_t calls) {
    const auto progress = m_grant.done(bytes, calls);
    if (!progress) return;
    const auto sent = send_event(
        m_client.outbox(),
        [&](wire::Event::Builder event) {
            auto report = event.initProgress();
            report.setCalls(progress->calls);
            report.setBytes(progress->bytes);
            report.setFreedSlots(m_client.take_freed_slots());
        },
        {}, protocol::Urgency::caller);
    m_client.flush();
    if (!sent.ok()) WL_LOG(debug, "session", "progress cannot be told: {}", sent.error().what);
}

void Session::report_async_error(const ServerCall& call, CUresult result) {
    const auto sent = send_event(m_client.outbox(), [&](wire::Event::Builder event) {
        auto error = event.initAsyncError();
        error.setCall(call.number());
        error.setContext(call.context());
        error.setResult(static_cast<int32_t>(result));
    });
    if (!sent.ok()) WL_LOG(debug, "session", "an error cannot be told: {}", sent.error().what);
}

/// Everything that must be on the wire before a reply is.
Result<Session::ReplyExtras> Session::before_reply(ServerCall& call, CUresult result) {
    if (m_output) m_output->drain();
    // Who is told that something is not done yet is told nothing of copies.
    if (result != CUDA_ERROR_NOT_READY) m_copies.wait_queued();
    const BytesView payload = call.reply_buffer().view();
    ReplyExtras extras{};
    extras.payload_bytes = call.sent_payload() + payload.size();
    if (payload.size() > m_client.chunk_bytes()) {
        WL_TRY(m_client.outbox().send_payload(call.number(), payload));
        call.drop_reply_payload();
    }
    CUdevice device = 0;
    if (m_memory.credit().has_news() && m_contexts.device_of(call.context(), device)) {
        extras.credit_bytes = m_memory.credit().renew(device);
        extras.credit_device = device;
    }
    extras.freed_through = m_freed.through();
    extras.progress = m_grant.report();
    return extras;
}

Result<void> Session::add_reply(ServerCall& call, CUresult result, const ReplyExtras& extras, unsigned value_words,
                                FunctionRef<void(capnp::AnyPointer::Builder)> fill) {
    const auto added = m_client.outbox().add_message<wire::Reply>(
        protocol::FrameKind::reply, protocol::k_reply_words + value_words,
        [&](wire::Reply::Builder reply) {
            reply.setCall(call.number());
            reply.setResult(static_cast<int32_t>(result));
            reply.setCreditBytes(extras.credit_bytes);
            reply.setCreditDevice(static_cast<uint8_t>(extras.credit_device));
            reply.setFreedThrough(extras.freed_through);
            reply.setPayloadBytes(extras.payload_bytes);
            auto progress = reply.initProgress();
            progress.setCalls(extras.progress.calls);
            progress.setBytes(extras.progress.bytes);
            progress.setFreedSlots(m_client.take_freed_slots());
            fill(reply.getValues());
        },
        call.reply_buffer().view(), protocol::Urgency::caller);
    // The client's next call may be there before this thread has come back for it.
    if (WorkSource* const source = m_client.work_source()) static_cast<void>(source->begin_reading());
    m_client.flush();
    return added;
}

Result<void> Session::send_reply(ServerCall& call, CUresult result, unsigned value_words,
                                 FunctionRef<void(capnp::AnyPointer::Builder)> fill) {
    const ReplyExtras extras = WL_TRY(before_reply(call, result));
    if (m_executed.is_on()) [[unlikely]]
        call.note_answered();
    return add_reply(call, result, extras, value_words, fill);
}

Result<void> read_args(ServerCall& call, FunctionRef<void(capnp::AnyPointer::Reader)> read) {
    return protocol::guarded([&] { read(call.view().message.getArgs()); });
}

Result<void> finish(ServerCall& call, CUresult result) {
    Session& session = call.session();
    // What a failed call has reserved nobody has written: it is memory of this process.
    if (result != CUDA_SUCCESS) call.drop_reply_payload();
    if (call.wants_reply()) return session.send_reply(call, result, 0, [](capnp::AnyPointer::Builder) {});
    if (result != CUDA_SUCCESS) session.report_async_error(call, result);
    return {};
}

}  // namespace warpline::server
