// What a launch of a graph does before and after the driver's part of it.
#include "server/objects/graph_copies.h"

#include <algorithm>
#include <cstring>

#include "common/log/log.h"
#include "protocol/codec/outbox.h"
#include "server/objects/client_port.h"
#include "server/objects/send_event.h"

namespace warpline::server {

namespace {

template <typename Entries>
auto find_entry(Entries& entries, CUgraphNode node) {
    return std::find_if(entries.begin(), entries.end(), [node](const auto& one) { return one.node == node; });
}

}  // namespace

GraphCopies::~GraphCopies() = default;

HostCopyPtr GraphCopies::make(uint64_t call, const ClientSide& side, uint64_t bytes, CUgraph graph) {
    sweep();
    AsyncCopies::Copy* staging = m_copies.begin(call, bytes, true);
    if (staging == nullptr) return nullptr;
    auto copy = std::make_shared<HostCopy>(m_copies, staging);
    copy->source = side.source;
    copy->client_address = side.address;
    copy->client_bytes = std::min(side.bytes, UINT64_MAX - side.address);
    if (side.rows.fits() && side.rows.span().value() == side.bytes) copy->rows = side.rows;
    m_of_graph[graph].push_back(copy);
    MutexLock lock(m_mutex);
    if (m_by_staging.size() >= m_sweep_at) {
        std::erase_if(m_by_staging, [](const auto& item) { return item.second.expired(); });
        std::erase_if(m_by_source, [](const auto& item) { return item.second.expired(); });
        m_sweep_at = m_by_staging.size() * 2 + 1024;
    }
    m_by_staging[staging->data] = copy;
    if (side.source != 0) m_by_source[side.source] = copy;
    return copy;
}

void GraphCopies::adopt(CUgraph graph, CUgraph from) {
    const auto found = m_of_graph.find(from);
    if (found == m_of_graph.end()) return;
    const std::vector<HostCopyPtr> copies = found->second;
    std::vector<HostCopyPtr>& mine = m_of_graph[graph];
    mine.insert(mine.end(), copies.begin(), copies.end());
}

void GraphCopies::graph_gone(CUgraph graph) {
    m_of_graph.erase(graph);
    m_tickets.graph_gone(graph);
    std::erase_if(m_bodies, [graph](const auto& item) { return item.second.graph == graph; });
}

void GraphCopies::exec_gone(CUgraphExec exec) {
    m_execs.erase(exec);
    m_tickets.retire(exec);
    sweep();
}

void GraphCopies::adopt(CUgraph graph, CUgraphExec from) {
    m_tickets.keep(from);
    const auto found = m_execs.find(from);
    if (found == m_execs.end()) return;
    for (const GraphSurvey::Entry& entry : found->second.entries) m_of_graph[graph].push_back(entry.copy);
}

HostCopyPtr GraphCopies::copy_at(const void* staging) {
    MutexLock lock(m_mutex);
    const auto found = m_by_staging.find(staging);
    return found != m_by_staging.end() ? found->second.lock() : nullptr;
}

const std::vector<CUgraph>* GraphCopies::bodies_of(CUgraphNode node) {
    const auto found = m_bodies.find(node);
    return found != m_bodies.end() ? &found->second.graphs : nullptr;
}

CUresult GraphCopies::survey(CUgraph graph, GraphSurvey& survey) {
    {
        MutexLock lock(m_mutex);
        if (m_by_staging.empty() && !m_host_calls.any_in_graphs()) return CUDA_SUCCESS;
    }
    const char* refusal = nullptr;
    const CUresult result = survey_graph(m_driver, m_host_calls, *this, graph, survey, refusal);
    if (refusal != nullptr) WL_LOG(warn, "graph", "refused: {}", refusal);
    return result;
}

void GraphCopies::instantiated(CUgraphExec exec, GraphSurvey survey) {
    sweep();
    if (survey.entries.empty() && !survey.host_functions) return;
    m_execs[exec] = {std::move(survey.entries),
                     survey.host_functions,
                     std::move(survey.host_nodes),
                     std::move(survey.late_records),
                     false,
                     nullptr,
                     nullptr};
}

void GraphCopies::updated(CUgraphExec exec, GraphSurvey survey) {
    m_tickets.retire(exec);
    sweep();
    const auto found = m_execs.find(exec);
    if (found == m_execs.end() && survey.entries.empty() && !survey.host_functions) return;
    Exec& changed = m_execs[exec];
    changed.entries = std::move(survey.entries);
    changed.host_functions = survey.host_functions;
    changed.host_nodes = std::move(survey.host_nodes);
    changed.late_records = std::move(survey.late_records);
    changed.updated = true;
    changed.links = nullptr;
}

CUresult GraphCopies::check_change(CUgraphExec exec, CUgraphNode node, const HostCopyPtr& copy) const {
    const auto found = m_execs.find(exec);
    // "if the memory operands' mappings changed" (CUDA Driver API, cuGraphExecMemcpyNodeSetParams).
    if (found == m_execs.end()) return copy == nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    const Exec& state = found->second;
    const auto refuse = [](const char* why) {
        WL_LOG(warn, "graph", "refused: in an executable graph, {}", why);
        return CUDA_ERROR_NOT_SUPPORTED;
    };
    const auto entry = find_entry(state.entries, node);
    const bool had = entry != state.entries.end();
    if (!had && copy == nullptr && !state.updated) return CUDA_SUCCESS;
    if (state.updated) return refuse("a copy of a node, where the host copies came from another graph");
    if (!had || copy == nullptr || (copy->source != 0) != entry->is_source()) return CUDA_ERROR_INVALID_VALUE;
    const auto hands_on = [&](const auto& one) { return &one == &*entry ? one.reads_here() : one.reads_from(entry->copy); };
    if (std::any_of(state.entries.begin(), state.entries.end(), hands_on))
        return refuse("a copy to host memory that another one reads from there");
    for (const GraphSurvey::Entry& other : state.entries) {
        const auto& after = entry->is_source() ? entry->after : other.after;
        const CUgraphNode earlier = entry->is_source() ? other.node : node;
        if (std::find(after.begin(), after.end(), earlier) == after.end() || !other.copy->touches(*copy)) continue;
        return refuse("a copy to host memory and another one from there");
    }
    return CUDA_SUCCESS;
}

void GraphCopies::changed(CUgraphExec exec, CUgraphNode node, HostCopyPtr copy) {
    if (copy == nullptr) return;
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return;
    const auto entry = find_entry(found->second.entries, node);
    if (entry == found->second.entries.end()) return;
    found->second.links = nullptr;
    entry->copy = std::move(copy);
}

CUresult GraphCopies::make_successor(CUgraphExec exec, CUgraphNode node, uint64_t id, HostCalls::Ticket*& ticket) {
    if (const auto found = m_execs.find(exec); found != m_execs.end()) {
        if (!found->second.host_nodes.contains(node) && !found->second.entries.empty()) {
            WL_LOG(warn, "graph", "refused: in an executable graph with host copies, a host node that came from another graph");
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    ticket = m_host_calls.make_ticket(id, false);
    return ticket != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void GraphCopies::give_ticket(CUgraphExec exec, CUgraphNode node, HostCalls::Ticket* ticket) {
    if (const auto found = m_execs.find(exec); found != m_execs.end()) {
        HostCalls::Ticket*& mine = found->second.host_nodes[node];
        for (GraphSurvey::Entry& entry : found->second.entries) {
            std::replace(entry.tickets.begin(), entry.tickets.end(), mine, ticket);
            std::sort(entry.tickets.begin(), entry.tickets.end());
        }
        mine = ticket;
        found->second.links = nullptr;
    }
    m_tickets.give(exec, node, ticket);
}

CUresult GraphCopies::check_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    GraphSurvey inside;
    if (const CUresult result = survey(child, inside); result != CUDA_SUCCESS) return result;
    bool concerned = !inside.entries.empty();
    if (const auto found = m_execs.find(exec); found != m_execs.end()) {
        for (const GraphSurvey::Entry& entry : found->second.entries) concerned = concerned || entry.top == node;
        concerned = concerned || inside.host_functions;
    }
    if (!concerned) return CUDA_SUCCESS;
    WL_LOG(warn, "graph", "refused: another child graph in an executable graph, where host copies are concerned");
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult GraphCopies::check_disabled(CUgraphExec exec, CUgraphNode node) const {
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return CUDA_SUCCESS;
    const std::vector<GraphSurvey::Entry>& entries = found->second.entries;
    const auto entry = find_entry(entries, node);
    const auto reads_it = [&](const auto& one) { return entry != entries.end() && one.reads_from(entry->copy); };
    if (std::none_of(entries.begin(), entries.end(), reads_it)) return CUDA_SUCCESS;
    WL_LOG(warn, "graph", "refused: a copy to host memory that another one reads from there cannot be disabled");
    return CUDA_ERROR_NOT_SUPPORTED;
}

void GraphCopies::enabled(CUgraphExec exec, CUgraphNode node, bool on) {
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return;
    for (GraphSurvey::Entry& entry : found->second.entries) {
        if (entry.node == node) entry.enabled = on;
    }
}

CUresult GraphCopies::check_record(CUgraphExec exec) const {
    const auto found = m_execs.find(exec);
    if (found == m_execs.end() || !found->second.updated || found->second.late_records.empty()) return CUDA_SUCCESS;
    WL_LOG(warn, "graph", "refused: another event of a node, where host copies before it came from another graph");
    return CUDA_ERROR_NOT_SUPPORTED;
}

void GraphCopies::records(CUgraphExec exec, CUgraphNode node, CUevent event) {
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return;
    for (GraphSurvey::LateRecord& record : found->second.late_records) {
        if (record.node == node) record.event = event;
    }
}

std::vector<CUevent> GraphCopies::late_events(CUgraphExec exec) const {
    std::vector<CUevent> events;
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return events;
    for (const GraphSurvey::LateRecord& record : found->second.late_records) events.push_back(record.event);
    return events;
}

GraphCopies::Summary GraphCopies::summary(CUgraphExec exec) const {
    Summary summary;
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return summary;
    for (const GraphSurvey::Entry& entry : found->second.entries) {
        if (!entry.is_source()) summary.targets.push_back(entry.copy->staging->call);
        if (entry.is_early() && entry.enabled) summary.sources.push_back(entry.copy->source);
    }
    summary.host_functions = found->second.host_functions;
    return summary;
}

/// Staging memory is free when the last launch with it is over: of this executable graph, which may have been in another
/// stream, or of another one that was made from the same graph.
CUresult GraphCopies::wait_for_last(const Exec& exec, CUstream stream) const {
    std::shared_ptr<LaunchMark> waited;  // by most, or all, of them
    for (const GraphSurvey::Entry& entry : exec.entries) {
        const auto& last = entry.copy->last;
        if (last == nullptr || last->event == nullptr || last == waited) continue;
        if (m_driver->cuStreamWaitEvent == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
        const CUresult result = m_driver->cuStreamWaitEvent(stream, last->event, 0);
        if (result != CUDA_SUCCESS) return result;
        waited = last;
    }
    return CUDA_SUCCESS;
}

void GraphCopies::mark_end(Exec& exec, const LaunchCall& call) {
    if (m_driver->cuEventCreate == nullptr || m_driver->cuEventRecord == nullptr) return;
    if (exec.mark == nullptr || exec.mark->context != call.context) {
        // Copies keep the mark, and with it the event, as long as one of them was launched under it.
        const auto destroy = [&driver = m_driver](LaunchMark* mark) {
            if (mark->event != nullptr && driver->cuEventDestroy_v2 != nullptr) driver->cuEventDestroy_v2(mark->event);
            delete mark;
        };
        exec.mark = std::shared_ptr<LaunchMark>(new LaunchMark{nullptr, call.context}, destroy);
        if (m_driver->cuEventCreate(&exec.mark->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) exec.mark->event = nullptr;
    }
    if (exec.mark->event != nullptr) m_driver->cuEventRecord(exec.mark->event, call.stream);
    for (const GraphSurvey::Entry& entry : exec.entries) entry.copy->last = exec.mark;
}

bool GraphCopies::ships(const Launch& launch, const LaunchCall& call) const {
    if (call.sources.empty() || call.sources.size() != launch.sources.size()) return false;
    uint64_t bytes = 0;
    for (size_t i = 0; i < call.sources.size(); ++i) {
        if (launch.sources[i]->source != call.sources[i]) return false;
        bytes += launch.sources[i]->staging->bytes;
    }
    return bytes == call.payload.size();
}

bool GraphCopies::is_plain(CUgraphExec exec) {
    sweep();
    return !m_execs.contains(exec);
}

CUresult GraphCopies::launch(CUgraphExec exec, const LaunchCall& call) {
    const auto found = m_execs.find(exec);
    Exec* const state = found != m_execs.end() ? &found->second : nullptr;
    if (m_driver->cuLaunchHostFunc == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    if (m_launches.size() >= k_max_launches) return CUDA_ERROR_OUT_OF_MEMORY;
    Launch& launch = m_launches.emplace_back(*this, exec, call.number);
    const auto give_up = [&](CUresult result) {
        if (launch.shipped != nullptr) m_copies.cancel(launch.shipped);
        m_launches.pop_back();
        return result;
    };
    launch.tell_end = call.tell_end;
    if (state == nullptr) return run(exec, call, launch);
    for (const GraphSurvey::Entry& entry : state->entries) {
        launch.all.push_back(entry.copy);
        if (entry.enabled && entry.is_early()) launch.sources.push_back(entry.copy);
        if (entry.enabled && !entry.is_source()) launch.targets.push_back(entry.copy);
    }
    launch.links = links_of(*state);
    launch.tell_end = launch.tell_end || !launch.targets.empty() || state->host_functions;
    if (ships(launch, call)) {
        launch.shipped = m_copies.begin(call.number, call.payload.size(), false);
        if (launch.shipped == nullptr) return give_up(CUDA_ERROR_OUT_OF_MEMORY);
        std::memcpy(launch.shipped->data, call.payload.data(), call.payload.size());
    }
    if (const CUresult result = wait_for_last(*state, call.stream); result != CUDA_SUCCESS) return give_up(result);
    const CUresult prepared = m_driver->cuLaunchHostFunc(call.stream, &GraphCopies::run_prepare, &launch);
    if (prepared != CUDA_SUCCESS) return give_up(prepared);
    const CUresult result = run(exec, call, launch);
    mark_end(*state, call);
    return result;
}

std::shared_ptr<const GraphCopies::Links> GraphCopies::links_of(Exec& exec) {
    if (exec.links == nullptr) {
        auto links = std::make_shared<Links>();
        for (const GraphSurvey::Entry& entry : exec.entries) links->emplace_back(entry.copy, entry.tickets);
        exec.links = std::move(links);
    }
    return exec.links;
}

CUresult GraphCopies::run(CUgraphExec exec, const LaunchCall& call, Launch& launch) {
    const CUresult launched = m_driver->cuGraphLaunch(exec, call.stream);
    launch.failed = launched != CUDA_SUCCESS;
    const CUresult followed = m_driver->cuLaunchHostFunc(call.stream, &GraphCopies::run_finish, &launch);
    // In a context that has failed no host function is called: then this is how we learn that the launch is over.
    const auto over = [this, &launch](CUresult result) {
        if (result != CUDA_SUCCESS) fail(launch);
        launch.watched.store(false, std::memory_order_release);  // acquired in sweep
    };
    launch.watched.store(true, std::memory_order_relaxed);
    if (m_watch.add(call.stream, StreamWatch::Urgency::whenever, over) != CUDA_SUCCESS) launch.watched.store(false);
    return launched != CUDA_SUCCESS ? launched : followed;
}

void CUDA_CB GraphCopies::run_prepare(void* launch) {
    auto* mine = static_cast<Launch*>(launch);
    mine->owner.prepare(*mine);
}

void CUDA_CB GraphCopies::run_finish(void* launch) {
    auto* mine = static_cast<Launch*>(launch);
    mine->owner.finish(*mine);
}

void GraphCopies::prepare(Launch& launch) {
    for (const auto& [copy, tickets] : *launch.links) m_host_calls.link(copy, tickets);
    for (const HostCopyPtr& target : launch.targets) target->left.store(false);
    if (launch.shipped != nullptr) {
        const std::byte* from = launch.shipped->data;
        for (const HostCopyPtr& source : launch.sources) {
            std::memcpy(source->staging->data, from, source->staging->bytes);
            from += source->staging->bytes;
        }
        free_shipped(launch);
        return;
    }
    std::vector<uint64_t> wanted;
    for (const HostCopyPtr& source : launch.sources) wanted.push_back(source->source);
    if (!wanted.empty()) m_host_calls.ask(wanted, CUDA_SUCCESS);
}

void GraphCopies::free_shipped(Launch& launch) {
    if (launch.shipped != nullptr && !launch.shipped_free.exchange(true)) m_copies.cancel(launch.shipped);
}

void GraphCopies::fail(Launch& launch) {
    free_shipped(launch);
    launch.finished.store(true, std::memory_order_release);
}

void GraphCopies::finish(Launch& launch) {
    for (const HostCopyPtr& target : launch.targets) {
        if (!launch.failed) target->send_once();
    }
    if (launch.tell_end) {
        const auto sent = send_event(m_client.outbox(), [&](wire::Event::Builder event) {
            auto done = event.initCopyDone();
            done.setCall(launch.call);
            done.setResult(CUDA_SUCCESS);
        });
        if (!sent.ok()) WL_LOG(debug, "graph", "the end of launch {} cannot be told: {}", launch.call, sent.error().what);
    }
    launch.finished.store(true, std::memory_order_release);  // acquired in sweep
}

/// Launches that are over let their copies go here, where the driver may be called.
void GraphCopies::sweep() {
    std::erase_if(m_launches, [](const Launch& launch) {
        return launch.finished.load(std::memory_order_acquire) && !launch.watched.load(std::memory_order_acquire);
    });
    m_tickets.sweep([this](CUgraphExec exec) {
        return std::any_of(m_launches.begin(), m_launches.end(), [exec](const Launch& launch) { return launch.exec == exec; });
    });
}

void GraphCopies::receive(uint64_t source, uint64_t offset, BytesView bytes) {
    HostCopyPtr copy;
    {
        MutexLock lock(m_mutex);
        const auto found = m_by_source.find(source);
        if (found != m_by_source.end()) copy = found->second.lock();
    }
    if (copy == nullptr) return;  // its graph has gone meanwhile
    if (offset > copy->staging->bytes || bytes.size() > copy->staging->bytes - offset) return;
    if (!bytes.empty()) std::memcpy(copy->staging->data + offset, bytes.data(), bytes.size());
}

}  // namespace warpline::server
