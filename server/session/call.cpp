// What a call asks its session for: handles, payload, order, room for the answer.
#include "server/session/call.h"

#include <atomic>
#include <bitset>

#include "common/log/log.h"
#include "protocol/codec/batch.h"
#include "protocol/codec/call_receiver.h"
#include "server/session/session.h"

namespace warpline::server {

ServerCall::ServerCall(Session& session, const protocol::CallView& view, std::shared_ptr<protocol::PayloadStream> stream)
    : m_session(session),
      m_driver(session.driver()),
      m_view(view),
      m_stream(std::move(stream)),
      m_id(static_cast<cuda::CallId>(view.header.id)),
      m_wants_reply(view.header.wants_reply),
      m_thread(view.header.thread),
      m_number(view.number),
      m_scope(view.header.context),
      m_context(session.contexts().base_of(m_scope)),
      m_payload_bytes(view.payload_bytes),
      m_payload(view.payload) {}

ServerCall::~ServerCall() {
    if (m_room_bytes != 0) m_session.give_payload_room(m_room_bytes);
}

Result<BytesView> ServerCall::whole_payload() {
    if (m_stream == nullptr || m_payload_taken == m_payload_bytes) return m_payload;
    if (!m_session.take_payload_room(m_payload_bytes))
        return Error{Code::quota,
                     "a payload is longer than one in one piece may be, or than the calls under way leave room for"};
    m_room_bytes += m_payload_bytes;
    protocol::Buffer whole;
    if (!whole.reserve(m_payload_bytes)) return Error{Code::alloc_failed, "no memory for a payload"};
    for (;;) {
        const BytesView part = WL_TRY(next_part());
        if (part.empty()) break;
        if (!whole.append(part)) return Error{Code::alloc_failed, "no memory for a payload"};
    }
    m_part = {std::move(whole), {}};
    m_payload = m_part.view();
    return m_payload;
}

Result<BytesView> ServerCall::next_part() {
    if (m_stream == nullptr) {
        const BytesView all = m_payload_taken == 0 ? m_payload : BytesView{};
        m_payload_taken = m_payload_bytes;
        return all;
    }
    if (m_part_to_credit != 0) m_session.work_done(m_part_to_credit, 0);
    m_part_to_credit = 0;
    if (m_payload_taken == m_payload_bytes) return BytesView{};
    m_part = WL_TRY(m_stream->next());
    if (UploadCache* const uploads = m_session.client().uploads(); uploads != nullptr)
        m_chunks.part(*uploads, m_payload_taken, m_payload_bytes, m_part.view(), m_part.keep);
    m_payload_taken += m_part.size();
    m_part_to_credit = m_part.size();
    return m_part.view();
}

void ServerCall::skip_payload() {
    if (m_stream == nullptr) return;
    for (;;) {
        const auto part = next_part();
        if (!part.ok() || part->empty()) break;
    }
}

bool ServerCall::find_value(HandleKind kind, uint64_t token, uint64_t& value) {
    if (kind == HandleKind::stream && token <= 2) {
        CUstream stream = nullptr;
        if (token == 2 && m_session.streams().of_thread(m_thread, m_scope, stream) != CUDA_SUCCESS) return false;
        if (token == 1) stream = CU_STREAM_LEGACY;
        if (token != 2) m_session.streams().note_default_used(m_scope);
        value = handle_to_value(stream);
        return true;
    }
    if (kind == HandleKind::context) {
        CUcontext context = nullptr;
        if (m_session.contexts().find(token, context) != CUDA_SUCCESS) return false;
        value = handle_to_value(context);
        return true;
    }
    const auto entry = m_session.handles().find(kind, token);
    if (!entry) return false;
    value = entry->value;
    return true;
}

bool ServerCall::find_device(CUdevice device, CUdevice& found) const {
    return m_session.contexts().driver_device(device, found);
}

bool ServerCall::may_bind(HandleKind kind, uint64_t token) const { return m_session.handles().is_free(kind, token); }

CUfunction ServerCall::find_function(uint64_t token) {
    m_function = m_session.functions().function(token, m_context, m_not_found);
    return m_function.function;
}
const ParamLayout* ServerCall::layout_of(uint64_t token) {
    if (m_function.token != token || m_function.layout == nullptr) {
        m_function.layout = m_session.functions().layout(token, m_not_found);
        m_function.token = token;
    }
    return m_function.layout.get();
}
CUkernel ServerCall::find_kernel(uint64_t token) { return m_session.functions().kernel(token); }

void ServerCall::bind_value(HandleKind kind, uint64_t token, uint64_t value, uint64_t owner,
                            std::shared_ptr<const MemoryCharge> charge) {
    HandleTable::Entry entry{value, owner};
    entry.charge = std::move(charge);
    m_session.handles().bind(kind, token, std::move(entry));
}

void ServerCall::unbind(HandleKind kind, uint64_t token) {
    m_session.handles().remove(kind, token);
    if (kind == HandleKind::stream) m_session.queues().stream_ended(token);
    if (kind == HandleKind::module || kind == HandleKind::library) m_session.images_ended();
}

void ServerCall::release_order() { m_session.executor().release_order(); }
void ServerCall::allow_overtaking() {
    // Where the bytes are still on their way, the calls between them need not wait for them.
    if (m_stream != nullptr && !m_stream->has_arrived()) return will_wait();
    m_session.executor().allow_overtaking();
}

void ServerCall::queue_in(uint64_t stream) {
    const bool is_default = stream <= 2, is_threads_own = stream == 2;
    const auto marks = m_session.queues().enter({stream, is_default ? m_scope : 0, is_threads_own ? m_thread : 0});
    uint64_t found = 0;
    // A mark in a stream that waits for one that is being captured would break the capture.
    const bool is_due = marks != nullptr && !m_session.freed().any_capture() && find_value(HandleKind::stream, stream, found);
    allow_overtaking();
    if (is_due) m_session.queues().wait_for_room(*marks, value_to_handle<CUstream>(found));
}

void ServerCall::will_wait() { m_session.executor().be_overtaken(); }

bool ServerCall::reserve_reply_payload(uint64_t size_bytes) {
    if (!m_session.take_payload_room(size_bytes)) return false;
    m_room_bytes += size_bytes;
    return m_reply_payload.resize(size_bytes);
}

CUresult ServerCall::missing_function() const {
    static std::array<std::atomic<bool>, 65536> logged{};
    if (!logged[static_cast<uint16_t>(m_id)].exchange(true, std::memory_order_relaxed)) {
        WL_LOG(warn, "driver", "{}: this driver has no such function; CUDA_ERROR_NOT_SUPPORTED", cuda::call_name(m_id));
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace warpline::server
