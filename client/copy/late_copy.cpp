// The server asks for the bytes of a copy, and the copy goes on when it has them.
#include "client/copy/late_copy.h"

#include "client/call/completion.h"
#include "client/gen/internal_calls.gen.h"
#include "client/session/connection_to_server.h"

namespace warpline::client {

namespace {

/// True if it may be read after the call: page-locked memory, or the program says so.
bool stays(const Call& call, const void* memory, uint64_t size_bytes) {
    if (call.source == SourceAccess::as_usual) return is_page_locked(call.state, memory, size_bytes);
    return call.source == SourceAccess::in_order;
}

}  // namespace

bool is_held_up(const Call& call, uint64_t stream) {
    return call.state.gates.any(
        [&](const Gates::Gate& gate) { return is_over(call, gate); },
        [&](const Gates::Gate& gate) { return may_come_behind(stream, gate.stream, gate.number, call.session.last_join()); });
}

bool has_to_be_read_late(Call& call, const void* memory, uint64_t size_bytes, uint64_t stream) {
    const bool is_written = may_be_written(call, memory, size_bytes, stream);
    if (!is_written && !is_held_up(call, stream)) return false;
    if (stays(call, memory, size_bytes)) return true;
    if (is_written) settle_host_memory(call, memory, size_bytes);
    return false;
}

std::optional<CUresult> copy_late(Call& call, const CopyPlan& plan, uint64_t stream, Timing timing) {
    const CopyTarget& rows = plan.source.rows;
    HostCalls& host_calls = call.session.host_calls();
    const auto id = std::make_shared<uint64_t>(0);
    *id = host_calls.add_read({reinterpret_cast<uint64_t>(rows.base), rows.span_bytes()}, rows.total_bytes(),
                              sender_of(call.session, rows, id));
    if (*id == 0) {
        if (may_be_written(call, rows.base, rows.span_bytes(), stream)) settle_host_memory(call, rows.base, rows.span_bytes());
        return std::nullopt;
    }
    if (rows.is_linear()) note_memory_named_in_copy(call, {rows.base, rows.total_bytes()});
    const uint64_t context = context_of_work(call, stream);
    call.stream = stream;
    const CUresult sent =
        gen::issue_wlCopyToDeviceLate(call, plan.source.array, plan.destination.array, plan.source.context,
                                      plan.destination.context, as_bytes(&plan.copy, sizeof plan.copy), stream, true, *id);
    if (sent != CUDA_SUCCESS) {
        host_calls.forget(*id);
        return sent;
    }
    host_calls.sent(*id, {context, stream}, call.number);
    return timing == Timing::asynchronous ? CUDA_SUCCESS : synchronize_stream(call, stream);
}

}  // namespace warpline::client
