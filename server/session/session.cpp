#include "server/session/session.h"

#include "common/log/log.h"
#include "cuda/abi/error_names.h"
#include "server/session/call.h"
#include "server/session/serve.h"

namespace warpline::server {

namespace {

constexpr unsigned k_event_words = 16;

/// One batch on its way through the executor: a step is a call.
class BatchWork final : public OrderedWork {
public:
    static Result<std::shared_ptr<BatchWork>> create(Session& session, protocol::CallReceiver::Unit unit) {
        auto work = std::shared_ptr<BatchWork>(new BatchWork(session, std::move(unit)));
        auto reader = protocol::BatchReader::open(work->m_unit.batch.body.view(), work->m_unit.batch.payload_view());
        if (!reader.ok()) return reader.error();
        work->m_reader.emplace(std::move(*reader));
        work->m_self = work;
        return work;
    }

    // Cap'n Proto's destructors may throw, as far as the compiler knows.
    ~BatchWork() noexcept override {}

    bool step() override {
        auto more = m_reader->next();
        if (!more.ok()) {
            m_session.client().did_misbehave(more.error().what);
            return false;
        }
        if (!*more) {
            m_session.work_done(m_unit.cost_bytes, m_unit.calls);
            return false;
        }
        serve();
        return true;
    }

private:
    BatchWork(Session& session, protocol::CallReceiver::Unit unit) : m_session(session), m_unit(std::move(unit)) {}

    void serve() {
        const protocol::CallView& view = m_reader->call();
        const DispatchEntry* entry = find_dispatch(view.header.id);
        if (entry == nullptr) return m_session.client().did_misbehave("a call that does not exist");
        m_session.counters().calls.fetch_add(1, std::memory_order_relaxed);
        ServerCall call(m_session, view, m_self.lock(), view.streamed ? m_unit.stream : nullptr);
        const CUresult current = m_session.contexts().make_current(view.header.context);
        const Result<void> served =
            current != CUDA_SUCCESS && entry->needs_context ? finish(call, current) : entry->serve(call);
        // From here on the batch may be another thread's.
        if (!served.ok() && served.error().code != Code::shutting_down) m_session.client().did_misbehave(served.error().what);
        call.skip_payload();
    }

    Session& m_session;
    protocol::CallReceiver::Unit m_unit;
    std::optional<protocol::BatchReader> m_reader;
    std::weak_ptr<BatchWork> m_self;
};

}  // namespace

Session::Session(const Driver& driver, const std::vector<DeviceSnapshot>& devices, SessionCounters& counters,
                 ClientPort& client, protocol::CreditGrant& grant, SessionOptions options)
    : m_driver(driver),
      m_devices(devices),
      m_counters(counters),
      m_client(client),
      m_grant(grant),
      m_options(options),
      m_contexts(driver, devices, m_handles),
      m_functions(driver, m_handles),
      m_streams(driver),
      m_memory(driver, devices, counters),
      m_copies(driver, client, options.max_staging_bytes),
      m_host_calls(client, m_copies),
      m_graph_copies(driver, m_copies, m_host_calls, client),
      m_executor({}) {}

Session::~Session() {
    m_host_calls.close();
    m_copies.close();
    m_executor.stop();
}

Result<void> Session::accept(protocol::CallReceiver::Unit unit) {
    auto work = WL_TRY(BatchWork::create(*this, std::move(unit)));
    if (!m_executor.push(std::move(work))) return Error{Code::quota, "more batches than the credit allows"};
    return {};
}

void Session::connection_lost() {
    m_host_calls.close();
    m_copies.close();
}

void Session::context_ended(uint64_t context) {
    m_contexts.forget_current();
    m_functions.context_ended(context);
    m_streams.context_ended(context);
    m_handles.remove_owned(context);
}

void Session::work_done(uint64_t bytes, uint32_t calls) {
    const auto progress = m_grant.done(bytes, calls);
    if (!progress) return;
    const auto sent =
        m_client.outbox().add_message<wire::Event>(protocol::FrameKind::event, k_event_words, [&](wire::Event::Builder event) {
            auto report = event.initProgress();
            report.setCalls(progress->calls);
            report.setBytes(progress->bytes);
        });
    if (!sent.ok()) WL_LOG(debug, "session", "progress cannot be told: {}", sent.error().what);
}

void Session::report_async_error(uint64_t call, CUresult result) {
    {
        MutexLock lock(m_error_mutex);
        if (m_async_result == CUDA_SUCCESS) {
            m_async_result = result;
            m_async_call = call;
        }
    }
    const auto sent =
        m_client.outbox().add_message<wire::Event>(protocol::FrameKind::event, k_event_words, [&](wire::Event::Builder event) {
            auto error = event.initAsyncError();
            error.setCall(call);
            error.setResult(static_cast<int32_t>(result));
        });
    if (!sent.ok()) WL_LOG(debug, "session", "an error cannot be told: {}", sent.error().what);
}

/// Everything that must be on the wire before a reply is.
Result<Session::ReplyExtras> Session::before_reply(ServerCall& call) {
    if (m_output) m_output->drain();
    m_copies.wait_queued();
    const BytesView payload = call.reply_buffer().view();
    ReplyExtras extras{};
    extras.payload_bytes = call.sent_payload() + payload.size();
    if (payload.size() > m_client.chunk_bytes()) {
        WL_TRY(m_client.outbox().send_payload(call.number(), payload));
        call.drop_reply_payload();
    }
    {
        MutexLock lock(m_error_mutex);
        extras.async_result = m_async_result;
        extras.async_call = m_async_call;
        m_async_result = CUDA_SUCCESS;
        m_async_call = 0;
    }
    extras.credit_bytes = m_memory.take_new_credit();
    extras.progress = m_grant.report();
    return extras;
}

Result<void> Session::add_reply(ServerCall& call, CUresult result, const ReplyExtras& extras, unsigned value_words,
                                const std::function<void(capnp::AnyPointer::Builder)>& fill) {
    const auto added = m_client.outbox().add_message<wire::Reply>(
        protocol::FrameKind::reply, protocol::k_reply_words + value_words,
        [&](wire::Reply::Builder reply) {
            reply.setCall(call.number());
            reply.setResult(static_cast<int32_t>(result));
            reply.setAsyncError(extras.async_result);
            reply.setAsyncErrorCall(extras.async_call);
            reply.setCreditBytes(extras.credit_bytes);
            reply.setPayloadBytes(extras.payload_bytes);
            auto progress = reply.initProgress();
            progress.setCalls(extras.progress.calls);
            progress.setBytes(extras.progress.bytes);
            if (fill) fill(reply.getValues());
        },
        call.reply_buffer().view(), protocol::Urgency::caller);
    m_client.flush();
    return added;
}

Result<void> finish(ServerCall& call, CUresult result) {
    Session& session = call.session();
    if (call.wants_reply()) return session.send_reply(call, result, 0, nullptr);
    if (result != CUDA_SUCCESS) session.report_async_error(call.number(), result);
    return {};
}

}  // namespace warpline::server
