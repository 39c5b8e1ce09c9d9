// Graphs and the program's memory: their copies read and write it at each launch.
#include "client/copy/graph_copies.h"

#include <algorithm>

#include "client/copy/late_copy.h"
#include "client/gen/graph_exec_calls.gen.h"
#include "client/gen/internal_calls.gen.h"
#include "client/session/connection_to_server.h"

namespace warpline::client {

namespace {

/// More than this is asked for by the server when the launch's turn comes.
constexpr uint64_t k_max_shipped_bytes = 32ull << 20;

/// True if nothing that was asked of the device before may still write to the memory of these copies, so that what is in it
/// now is what they will read.
bool is_settled(Call& call, const std::vector<GraphEnd>& sources) {
    Session& session = call.session;
    if (!session.host_calls().idle() || session.graph_functions_pending()) return false;
    return std::none_of(sources.begin(), sources.end(), [&](const GraphEnd& source) {
        return session.copy_pending(reinterpret_cast<uint64_t>(source.rows.base), source.span_bytes());
    });
}

}  // namespace

HostEndOfCopy::HostEndOfCopy(const CopyEnd& end, const CopyPlan& plan) : m_exists(true), m_is_source(plan.source.is_host) {
    m_end.rows = plan.host().rows;
    m_end.host = end.host;
    m_end.x = end.x, m_end.y = end.y, m_end.z = end.z;
    m_end.pitch = end.pitch;
    m_end.height = end.height;
}

uint64_t HostEndOfCopy::add_source(Call& call) const {
    auto id = std::make_shared<uint64_t>(0);
    *id = call.session.host_calls().add(sender_of(call.session, m_end.rows, id), HostCalls::Life::persistent);
    call.state.graph_ends.add_source(*id, m_end);
    return *id;
}

CUresult capture_host_copy(Call& call, const CopyPlan& plan, uint64_t stream) {
    const CopyTarget& rows = plan.host().rows;
    CopyEnd end;
    end.host = rows.base;
    end.pitch = rows.pitch_bytes;
    end.height = rows.layer_rows();
    HostEndOfCopy host(end, plan);
    CUDA_MEMCPY3D_PEER copy = plan.copy;
    host.tell_rows(copy);
    const CUresult result = host.send(call, [&](uint64_t source, uint64_t address, uint64_t bytes) {
        return gen::issue_wlCaptureCopy(call, plan.source.array, plan.destination.array, plan.source.context,
                                        plan.destination.context, as_bytes(&copy, sizeof copy), stream, true, source, address,
                                        bytes);
    });
    if (result == CUDA_SUCCESS) hold_in_capture(call, stream, host.held());
    return result;
}

std::optional<Bytes> gather_sources(Call& call, const std::vector<uint64_t>& sources, uint64_t stream) {
    std::vector<GraphEnd> ends;
    uint64_t total = 0;
    for (uint64_t id : sources) {
        const std::optional<GraphEnd> end = call.state.graph_ends.source(id);
        if (!end) return std::nullopt;
        ends.push_back(*end);
        total += end->rows.total_bytes();
    }
    if (ends.empty() || total > k_max_shipped_bytes || !is_settled(call, ends) || is_held_up(call, stream)) return std::nullopt;
    Bytes bytes(total);
    std::byte* out = bytes.data();
    for (const GraphEnd& end : ends) {
        end.rows.gather(out);
        out += end.rows.total_bytes();
    }
    return bytes;
}

CUresult learn_copies(Call& call, uint64_t exec) {
    GraphExec* found = call.state.graph_execs.find(exec);
    if (!found || !call.state.graph_ends.any()) return CUDA_SUCCESS;
    gen::WlGraphExecCopiesValues answer;
    const CUresult result = gen::request_wlGraphExecCopies(call, exec, answer);
    if (result != CUDA_SUCCESS) return result;
    MutexLock lock(found->mutex);
    found->sources = std::move(answer.sources);
    found->targets = std::move(answer.targets);
    found->host_functions = answer.hostFunctions;
    found->concerned.store(!found->sources.empty() || !found->targets.empty() || found->host_functions);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
