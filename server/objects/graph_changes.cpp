// What single nodes of executable graphs do from the next launch on, and graphs that take the place of others.
#include <algorithm>
#include <utility>

#include "common/log/log.h"
#include "server/objects/graph_copies.h"

namespace warpline::server {

namespace {

CUresult refuse(const char* why) {
    WL_LOG(warn, "graph", "refused: in an executable graph, {}", why);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/// Nodes of an executable graph that have to read from another place here, because what they read there is another copy's now.
class Moves {
public:
    Moves(const Driver& driver, CUgraphExec exec) : m_driver(driver), m_exec(exec) {}

    void add(const GraphSurvey::Entry& now, const GraphSurvey::Entry& then) {
        m_moves.push_back({now.node, now.copy->node, then.copy->node});
        put_host_end(m_moves.back().now, true, now.place());
        put_host_end(m_moves.back().then, true, then.place());
    }
    /// All of them or none.
    CUresult make() {
        for (; m_made < m_moves.size(); ++m_made) {
            const CUresult result = set(m_moves[m_made].node, m_moves[m_made].now);
            if (result == CUDA_SUCCESS) continue;
            undo();
            return result;
        }
        return CUDA_SUCCESS;
    }
    void undo() {
        for (; m_made != 0; --m_made) set(m_moves[m_made - 1].node, m_moves[m_made - 1].then);
    }

private:
    struct Move {
        CUgraphNode node;
        CUDA_MEMCPY3D now, then;
    };
    CUresult set(CUgraphNode node, const CUDA_MEMCPY3D& copy) {
        if (m_driver->cuGraphExecMemcpyNodeSetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
        CUcontext context = nullptr;
        const CUresult result = m_driver->cuCtxGetCurrent(&context);
        return result == CUDA_SUCCESS ? m_driver->cuGraphExecMemcpyNodeSetParams(m_exec, node, &copy, context) : result;
    }

    const Driver& m_driver;
    const CUgraphExec m_exec;
    std::vector<Move> m_moves;
    size_t m_made = 0;
};

/// True if nodes see to one copy to the client, or call one function of its, and the graph has copies: each of them would need
/// its own, which it gets where a graph is made executable.
bool has_twins(const GraphModel& model, const GraphModel& child) {
    if (!model.has_copies()) return false;
    const auto has_own = [](const GraphModel::Node& node) { return node.is_second || node.own_ticket || node.asks != nullptr; };
    return std::any_of(child.nodes.begin(), child.nodes.end(), has_own) || !model.twins().empty();
}

}  // namespace

CUresult GraphCopies::updated(CUgraphExec exec, Surveyed surveyed) {
    m_tickets.retire(exec);
    sweep();
    keep_tickets(exec, surveyed);
    Exec* known = find(exec);
    if (known == nullptr && surveyed.survey.entries.empty() && !surveyed.survey.host_functions) return CUDA_SUCCESS;
    Exec& changed = m_execs[exec];
    GraphModel now = surveyed.model;
    // Of what it had before nothing is known where that had nothing to do with the client.
    changed.is_foreign = known == nullptr || changed.is_foreign || !now.take_names(changed.model);
    changed.links = nullptr;
    GraphSurvey survey;
    if (!changed.is_foreign && survey_graph(now, survey) == nullptr) {
        changed.model = std::move(now);
        changed.survey = std::move(survey);
        // What is switched off stays so, which of these nodes the driver does not know.
        for (GraphModel::Node& node : changed.model.nodes) {
            if (node.enabled || node.ticket == nullptr) continue;
            const CUresult result = exchange_ticket(exec, &changed, &node, node.handle, node.ticket->id);
            if (result != CUDA_SUCCESS) return result;
        }
        return CUDA_SUCCESS;
    }
    changed.is_foreign = true;
    changed.model = std::move(surveyed.model);
    changed.survey = std::move(surveyed.survey);
    return CUDA_SUCCESS;
}

/// Makes a change, if that leaves the client's memory right.
///
/// @param model    of what the executable graph will be; the caller keeps it
/// @param changed  the node that `set` sees to
/// @param set      asks the driver; `set(const GraphSurvey& now)`
template <typename Set>
CUresult GraphCopies::adopt_change(CUgraphExec handle, Exec& exec, const GraphModel& model, CUgraphNode changed, Set&& set) {
    GraphSurvey now;
    if (const char* refusal = survey_graph(model, now)) return refuse(refusal);
    Moves moves(m_driver, handle);
    for (const GraphSurvey::Entry& entry : now.entries) {
        const GraphSurvey::Entry* then = exec.survey.find(entry.node);
        if (then == nullptr || !entry.is_source()) continue;
        // Who lays them over what is read is a node, and there are as many as there were.
        if (entry.over != then->over || (!entry.over.empty() && entry.copy != then->copy))
            return refuse("a copy from host memory that reads, or would read, only in part what the graph has copied there");
        if (entry.node != changed && entry.copy == then->copy && entry.place() != then->place()) moves.add(entry, *then);
    }
    CUresult result = moves.make();
    if (result == CUDA_SUCCESS) {
        result = set(static_cast<const GraphSurvey&>(now));
        if (result != CUDA_SUCCESS) moves.undo();
    }
    if (result != CUDA_SUCCESS) return result;
    exec.survey = std::move(now);
    exec.links = nullptr;
    return CUDA_SUCCESS;
}

CUresult GraphCopies::change_copy(CUgraphExec handle, CUgraphNode node, HostCopyPtr host, CUDA_MEMCPY3D copy,
                                  CUcontext context) {
    const auto set = [&] { return m_driver->cuGraphExecMemcpyNodeSetParams(handle, node, &copy, context); };
    Exec* const exec = find(handle);
    // "if the memory operands' mappings changed" (CUDA Driver API, cuGraphExecMemcpyNodeSetParams).
    if (exec == nullptr) return host == nullptr ? set() : CUDA_ERROR_INVALID_VALUE;
    if (exec->is_foreign && (host != nullptr || !exec->survey.entries.empty()))
        return refuse("a copy of a node, where the host copies came from another graph");
    GraphModel::Node* const known = exec->model.find(node);
    const HostCopyPtr then = known != nullptr ? known->copy : nullptr;
    if (then == nullptr && host == nullptr) return set();
    if (then == nullptr || host == nullptr || (then->source == 0) != (host->source == 0)) return CUDA_ERROR_INVALID_VALUE;
    if (known->asks != nullptr && host != then)
        return refuse("another copy from host memory behind a node that waits for what is no node");
    if (known->body != 0 && host->source == 0) return refuse("another copy to host memory in the body of a conditional node");
    const HostCopyPtr before = std::exchange(known->copy, host);
    const CUresult result = adopt_change(handle, *exec, exec->model, node, [&](const GraphSurvey& now) {
        put_host_end(copy, host->source != 0, now.find(node)->place());
        return set();
    });
    if (result != CUDA_SUCCESS) known->copy = before;
    return result;
}

CUresult GraphCopies::change_child(CUgraphExec handle, CUgraphNode node, CUgraph child) {
    Surveyed inside;
    if (const CUresult result = survey(child, inside); result != CUDA_SUCCESS) return result;
    const auto set = [&](const GraphSurvey&) { return m_driver->cuGraphExecChildGraphNodeSetParams(handle, node, child); };
    Exec* const exec = find(handle);
    const bool concerned = !inside.survey.entries.empty() || inside.survey.host_functions;
    if (exec == nullptr) return concerned ? CUDA_ERROR_INVALID_VALUE : set(inside.survey);
    const auto lies_inside = [&](const GraphModel::Node& one) {
        return one.top == node && one.handle != node && (one.copy != nullptr || one.ticket != nullptr);
    };
    const std::vector<GraphModel::Node>& nodes = exec->model.nodes;
    if (!concerned && std::none_of(nodes.begin(), nodes.end(), lies_inside)) return set(inside.survey);
    if (exec->is_foreign) return refuse("another child graph, where the host copies came from another graph");
    GraphModel model = exec->model;
    if (!model.exchange_child(node, inside.model)) return CUDA_ERROR_INVALID_VALUE;  // it has another shape
    if (has_twins(model, inside.model)) return refuse("with host copies, a child graph that is in it twice");
    const CUresult result = adopt_change(handle, *exec, model, node, set);
    if (result == CUDA_SUCCESS) exec->model = std::move(model);
    return result;
}

CUresult GraphCopies::set_enabled(CUgraphExec handle, CUgraphNode node, bool on) {
    const auto set = [&](const GraphSurvey&) { return m_driver->cuGraphNodeSetEnabled(handle, node, on ? 1 : 0); };
    Exec* const exec = find(handle);
    GraphModel::Node* const known = exec != nullptr ? exec->model.find(node) : nullptr;
    if (known == nullptr || known->copy == nullptr) {
        if (exec != nullptr && exec->is_foreign && !exec->survey.entries.empty())
            return refuse("a node that is switched on or off, where the host copies came from another graph");
        return set({});
    }
    const bool before = std::exchange(known->enabled, on);
    const CUresult result = adopt_change(handle, *exec, exec->model, nullptr, set);
    if (result != CUDA_SUCCESS) known->enabled = before;
    return result;
}

CUresult GraphCopies::change_event(CUgraphExec handle, CUgraphNode node, CUevent event) {
    Exec* const exec = find(handle);
    if (exec != nullptr && exec->is_foreign && !exec->survey.late_records.empty())
        return refuse("another event of a node, where the host copies before it came from another graph");
    const CUresult result = m_driver->cuGraphExecEventRecordNodeSetEvent(handle, node, event);
    if (result != CUDA_SUCCESS || exec == nullptr) return result;
    if (GraphModel::Node* known = exec->model.find(node)) known->event = event;
    for (GraphSurvey::LateRecord& record : exec->survey.late_records) {
        if (record.node == node) record.event = event;
    }
    return CUDA_SUCCESS;
}

CUresult GraphCopies::set_host_copy_enabled(CUgraphExec handle, CUgraphNode node, bool on) {
    Exec* const exec = find(handle);
    GraphModel::Node* const known = exec != nullptr && !exec->is_foreign ? exec->model.find(node) : nullptr;
    if (known == nullptr || known->ticket == nullptr)
        return refuse("a copy within host memory that came from another graph cannot be switched on or off");
    const bool before = std::exchange(known->enabled, on);
    const CUresult result = exchange_ticket(handle, exec, known, node, known->ticket->id);
    if (result != CUDA_SUCCESS) known->enabled = before;
    return result;
}

CUresult GraphCopies::change_function(CUgraphExec handle, CUgraphNode node, uint64_t id) {
    Exec* const exec = find(handle);
    GraphModel::Node* const known = exec != nullptr && !exec->is_foreign ? exec->model.find(node) : nullptr;
    if (exec != nullptr && known == nullptr && !exec->survey.entries.empty())
        return refuse("with host copies, a host node that came from another graph");
    return exchange_ticket(handle, exec, known, node, id);
}

/// @param exec, known  null: not known here
CUresult GraphCopies::exchange_ticket(CUgraphExec handle, Exec* exec, GraphModel::Node* known, CUgraphNode node, uint64_t id) {
    if (m_driver->cuGraphExecHostNodeSetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    HostCalls::Ticket* const ticket = m_host_calls.make_ticket(id, false, known != nullptr && !known->enabled);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    if (const CUresult result = m_driver->cuGraphExecHostNodeSetParams(handle, node, &params); result != CUDA_SUCCESS) {
        m_host_calls.drop_ticket(ticket);
        return result;
    }
    if (known != nullptr) {
        for (GraphSurvey::Entry& entry : exec->survey.entries) {
            std::replace(entry.tickets.begin(), entry.tickets.end(), known->ticket, ticket);
            std::sort(entry.tickets.begin(), entry.tickets.end());
        }
        known->ticket = ticket;
        exec->links = nullptr;
    }
    m_tickets.give(handle, node, ticket);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
