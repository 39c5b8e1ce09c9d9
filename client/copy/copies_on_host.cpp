// Copies within the program's own memory, and the nodes of graphs that stand for them.
#include "client/copy/copies_on_host.h"

#include <cstring>

#include "client/call/completion.h"
#include "client/call/pages.h"
#include "client/call/shim.h"
#include "client/gen/event_calls.gen.h"
#include "client/gen/graph_node_params_calls.gen.h"
#include "client/gen/stream_calls.gen.h"
#include "client/graph/holds.h"
#include "common/base/scope_guard.h"

namespace warpline::client {

namespace {

void copy_rows(const CopyTarget& source, const CopyTarget& destination) {
    if (source.is_linear() && destination.is_linear()) {
        std::memmove(destination.base, source.base, source.total_bytes());
        return;
    }
    Bytes rows(source.total_bytes());
    source.gather(rows.data());
    destination.write(0, rows);
}

/// Of a captured copy the program has not given a description. @param rows  where one of its ends lies
CopyEnd end_at(const CopyTarget& rows) {
    CopyEnd end;
    end.host = rows.base;
    end.pitch = rows.pitch_bytes;
    end.height = rows.slices > 1 ? rows.slice_pitch_bytes / rows.pitch_bytes : rows.rows;
    return end;
}

CUresult capture_copy_on_host(Call& call, const CopyPlan& plan, uint64_t stream) {
    CUDA_MEMCPY3D told{};
    put_end(told, CopyEnd::Which::source, end_at(plan.source.rows));
    put_end(told, CopyEnd::Which::destination, end_at(plan.destination.rows));
    told.WidthInBytes = plan.source.rows.row_bytes;
    told.Height = plan.source.rows.rows;
    told.Depth = plan.source.rows.slices;
    const uint64_t id = register_host_copy(call, plan, told, call.context);
    const UserObjectPtr end = make_end(call, EndKind::function, id);
    const CUresult result = gen::issue_cuLaunchHostFunc(call, stream, id);
    if (result == CUDA_SUCCESS) {
        hold_in_capture(call, stream, end);
    } else {
        end->release(1);
    }
    return result;
}

/// A stream waits for the legacy one when it is given something, and not when it is waited for. The copy itself is made here:
/// an event takes its place in the stream.
CUresult take_turn(Call& call, uint64_t stream) {
    const Stream* const named = call.state.streams.find(stream);
    if (stream <= 1 || (named && (named->flags & CU_STREAM_NON_BLOCKING) != 0)) return CUDA_SUCCESS;
    if ((!named || named->context == call.scope()) && is_context_known_idle(call)) return CUDA_SUCCESS;
    const uint64_t current = call.context;
    if (named) call.context = named->context;
    const ScopeGuard back([&] { call.context = current; });
    auto made = make_object<HandleKind::event>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gen::issue_cuEventCreate(call, made.token, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        result = gen::issue_cuEventRecord(call, made.token, stream);
        (void)gen::issue_cuEventDestroy_v2(call, made.token);  // the driver keeps it until it has been reached
    }
    call.state.events.remove(made.token);
    return result;
}

}  // namespace

CUresult copy_on_host(Call& call, const CopyPlan& plan, uint64_t stream) {
    if (is_capturing(call, stream)) return capture_copy_on_host(call, plan, stream);
    if (CUresult result = take_turn(call, stream); result != CUDA_SUCCESS) return result;
    if (CUresult result = synchronize_stream(call, stream); result != CUDA_SUCCESS) return result;
    copy_rows(plan.source.rows, plan.destination.rows);
    return CUDA_SUCCESS;
}

uint64_t register_host_copy(Call& call, const CopyPlan& plan, const CUDA_MEMCPY3D& told, uint64_t context) {
    // As a function of the program's: it finds what kernels have written to registered memory, and they what it has written.
    const auto copy = [&session = call.session, &state = call.state, context, source = plan.source.rows,
                       destination = plan.destination.rows](CUresult) {
        run_between_kernels(session, state, context, std::nullopt, [&] { copy_rows(source, destination); });
    };
    const uint64_t id = call.session.host_calls().add(copy, HostCalls::Life::persistent);
    call.state.graph_ends.add_host_copy(id, told);
    return id;
}

CUresult describe_host_copy(Call& call, CUgraphNode node, std::optional<CUDA_MEMCPY3D>& told) {
    told.reset();
    GraphNode* known = call.state.graph_nodes.find(to_token(node));
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.graph_ends.any_host_copies() || known->host_copy.load() == GraphNode::HostCopy::no) return CUDA_SUCCESS;
    gen::CuGraphHostNodeGetParamsValues answer;
    const CUresult result = gen::request_cuGraphHostNodeGetParams(call, to_token(node), answer);
    // No host node, says the driver.
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) return result;
    if (result == CUDA_SUCCESS) told = call.state.graph_ends.host_copy(answer.id);
    known->host_copy.store(told ? GraphNode::HostCopy::yes : GraphNode::HostCopy::no);
    return CUDA_SUCCESS;
}

CUresult is_host_copy(Call& call, CUgraphNode node, bool& is_one) {
    GraphNode* known = call.state.graph_nodes.find(to_token(node));
    is_one = known && known->host_copy.load() == GraphNode::HostCopy::yes;
    if (is_one) return CUDA_SUCCESS;
    std::optional<CUDA_MEMCPY3D> told;
    const CUresult result = describe_host_copy(call, node, told);
    is_one = told.has_value();
    return result;
}

}  // namespace warpline::client
