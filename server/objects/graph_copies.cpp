// What a launch of a graph does before and after the driver's part of it.
#include "server/objects/graph_copies.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/log/log.h"
#include "protocol/codec/outbox.h"
#include "server/objects/client_port.h"
#include "server/objects/send_event.h"

namespace warpline::server {

GraphCopies::~GraphCopies() = default;

HostCopyPtr GraphCopies::make(uint64_t call, const ClientSide& side, uint64_t bytes) {
    sweep();
    AsyncCopies::Copy* staging = m_copies.begin(call, bytes, true);
    if (staging == nullptr) return nullptr;
    auto copy = std::make_shared<HostCopy>(m_copies, staging);
    copy->source = side.source;
    copy->client_address = side.address;
    copy->client_bytes = std::min(side.bytes, UINT64_MAX - side.address);
    if (side.rows.fits() && side.rows.span().value() == side.bytes) copy->rows = side.rows;
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

void GraphCopies::keep(CUgraph graph, CUgraphNode node, HostCopyPtr copy) {
    if (copy == nullptr) {
        if (const auto found = m_of_graph.find(graph); found != m_of_graph.end()) found->second.by_node.erase(node);
        return;
    }
    OfGraph& mine = m_of_graph[graph];
    if (node != nullptr) {
        mine.by_node[node] = std::move(copy);
    } else {
        mine.others.push_back(std::move(copy));
    }
}

void GraphCopies::adopt(CUgraph graph, CUgraph from) {
    const auto found = m_of_graph.find(from);
    if (found == m_of_graph.end()) return;
    std::vector<HostCopyPtr> copies = found->second.others;
    for (const auto& [node, copy] : found->second.by_node) copies.push_back(copy);
    std::vector<HostCopyPtr>& mine = m_of_graph[graph].others;
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

HostCopyPtr GraphCopies::copy_at(const void* staging) {
    MutexLock lock(m_mutex);
    const auto found = m_by_staging.find(staging);
    return found != m_by_staging.end() ? found->second.lock() : nullptr;
}

const std::vector<CUgraph>* GraphCopies::bodies_of(CUgraphNode node) {
    const auto found = m_bodies.find(node);
    return found != m_bodies.end() ? &found->second.graphs : nullptr;
}

GraphCopies::Exec* GraphCopies::find(CUgraphExec exec) {
    const auto found = m_execs.find(exec);
    return found != m_execs.end() ? &found->second : nullptr;
}

CUresult GraphCopies::survey(CUgraph graph, Surveyed& surveyed) {
    {
        MutexLock lock(m_mutex);
        if (m_by_staging.empty() && !m_host_calls.any_in_graphs()) return CUDA_SUCCESS;
    }
    const char* refusal = nullptr;
    CUresult result = read_graph(m_driver, m_host_calls, *this, graph, surveyed.model, refusal);
    if (result == CUDA_SUCCESS) result = give_own(surveyed);
    if (result == CUDA_SUCCESS) result = ask_behind_waits(surveyed);
    if (result == CUDA_SUCCESS) refusal = survey_graph(surveyed.model, surveyed.survey);
    if (refusal != nullptr) {
        WL_LOG(warn, "graph", "refused: {}", refusal);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return result == CUDA_SUCCESS ? mark_runs(surveyed.survey) : result;
}

/// A graph that is inside of another one twice copies to the client's memory twice: each time from staging memory of its own.
/// And it calls the client's functions twice, of which each sees to the copies that lie directly around it.
CUresult GraphCopies::give_own(Surveyed& surveyed) {
    if (!surveyed.model.has_copies()) return CUDA_SUCCESS;
    for (size_t index : surveyed.model.twins()) {
        GraphModel::Node& node = surveyed.model.nodes[index];
        if (node.copy != nullptr) {
            node.copy = own_copy(*node.copy);
            node.is_second = true;
            if (node.copy == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            node.ticket = own_ticket(surveyed, node.handle, node.ticket->id, node.ticket->is_left_out);
            node.own_ticket = true;
            if (node.ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return CUDA_SUCCESS;
}

/// What waits for no node of the graph ends at a time that the client does not know: it is asked for what comes behind.
CUresult GraphCopies::ask_behind_waits(Surveyed& surveyed) {
    std::vector<GraphModel::Node>& nodes = surveyed.model.nodes;
    const auto waits = [](const GraphModel::Node& node) {
        return node.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT || node.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    };
    if (!surveyed.model.has_copies() || std::none_of(nodes.begin(), nodes.end(), waits)) return CUDA_SUCCESS;
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].copy == nullptr || nodes[i].copy->source == 0 || nodes[i].body != 0) continue;
        const std::vector<size_t> before = surveyed.model.all_before(i);
        if (std::none_of(before.begin(), before.end(), [&](size_t index) { return waits(nodes[index]); })) continue;
        nodes[i].asks = own_ticket(surveyed, nodes[i].handle, nodes[i].copy->source, false);
        if (nodes[i].asks == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

/// Null: there is no memory.
HostCopyPtr GraphCopies::own_copy(const HostCopy& first) {
    AsyncCopies::Copy* staging = m_copies.begin(first.staging->call, first.staging->bytes, true);
    if (staging == nullptr) return nullptr;
    auto own = std::make_shared<HostCopy>(m_copies, staging);
    own->client_address = first.client_address;
    own->client_bytes = first.client_bytes;
    own->rows = first.rows;
    own->node = first.node;
    put_host_end(own->node, false, staging->data);
    return own;
}

/// Null: there are too many.
HostCalls::Ticket* GraphCopies::own_ticket(Surveyed& surveyed, CUgraphNode node, uint64_t id, bool is_left_out) {
    OwnTicket own(m_host_calls.make_ticket(id, false, is_left_out), DropTicket{&m_host_calls});
    if (own == nullptr) return nullptr;
    return surveyed.own_tickets.emplace_back(node, std::move(own)).second.get();
}

void GraphCopies::keep_tickets(CUgraphExec exec, Surveyed& surveyed) {
    for (auto& [node, ticket] : surveyed.own_tickets) m_tickets.give(exec, node, ticket.release());
    surveyed.own_tickets.clear();
}

CUresult GraphCopies::mark_runs(const GraphSurvey& survey) {
    for (const GraphSurvey::Entry& entry : survey.entries) {
        if (!entry.in_body || entry.is_source() || entry.copy->run_mark != nullptr) continue;
        entry.copy->run_mark = m_copies.begin(entry.copy->staging->call, sizeof(uint32_t), true);
        if (entry.copy->run_mark == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

void GraphCopies::instantiated(CUgraphExec exec, Surveyed surveyed) {
    sweep();
    keep_tickets(exec, surveyed);
    Exec made;
    made.model = std::move(surveyed.model);
    made.survey = std::move(surveyed.survey);
    if (made.concerns_client()) m_execs[exec] = std::move(made);
}

std::vector<CUevent> GraphCopies::late_events(CUgraphExec exec) const {
    std::vector<CUevent> events;
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return events;
    for (const GraphSurvey::LateRecord& record : found->second.survey.late_records) events.push_back(record.event);
    return events;
}

GraphCopies::Summary GraphCopies::summary(CUgraphExec exec) const {
    Summary summary;
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return summary;
    for (const GraphSurvey::Entry& entry : found->second.survey.entries) {
        if (!entry.is_source()) summary.targets.push_back(entry.copy->staging->call);
        if (entry.is_early() && entry.enabled) summary.sources.push_back(entry.copy->source);
    }
    summary.host_functions = found->second.survey.host_functions;
    return summary;
}

/// Staging memory is free when the last launch with it is over: of this executable graph, which may have been in another
/// stream, or of another one that was made from the same graph.
CUresult GraphCopies::wait_for_last(const Exec& exec, CUstream stream) const {
    std::shared_ptr<LaunchMark> waited;  // by most, or all, of them
    for (const GraphSurvey::Entry& entry : exec.survey.entries) {
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
    for (const GraphSurvey::Entry& entry : exec.survey.entries) entry.copy->last = exec.mark;
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
    sweep_few();
    return !m_execs.contains(exec);
}

CUresult GraphCopies::launch(CUgraphExec exec, const LaunchCall& call) {
    Exec* const state = find(exec);
    if (m_driver->cuLaunchHostFunc == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    sweep_few();
    if (m_launches.size() >= k_max_launches) return CUDA_ERROR_OUT_OF_MEMORY;
    m_tickets.launched(call.number);
    Launch& launch = m_launches.emplace_back(*this, exec, call.number);
    const auto give_up = [&](CUresult result) {
        if (launch.shipped != nullptr) m_copies.cancel(launch.shipped);
        m_launches.pop_back();
        return result;
    };
    launch.tell_end = call.tell_end;
    if (state == nullptr) return run(exec, call, launch);
    for (const GraphSurvey::Entry& entry : state->survey.entries) {
        launch.all.push_back(entry.copy);
        if (entry.enabled && entry.is_early()) launch.sources.push_back(entry.copy);
        if (entry.enabled && !entry.is_source()) launch.targets.emplace_back(entry.copy, entry.in_body);
    }
    launch.links = links_of(*state);
    launch.tell_end = launch.tell_end || !launch.targets.empty() || state->survey.host_functions;
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
        std::map<const HostCopy*, size_t> at;
        for (const GraphSurvey::Entry& entry : exec.survey.entries) {
            // Sources that a graph has twice, by child graphs, are one.
            const auto [known, is_new] = at.emplace(entry.copy.get(), links->size());
            if (is_new) {
                links->emplace_back(entry.copy, entry.tickets);
                continue;
            }
            std::vector<HostCalls::Ticket*>& tickets = (*links)[known->second].second;
            std::vector<HostCalls::Ticket*> all;
            std::set_union(tickets.begin(), tickets.end(), entry.tickets.begin(), entry.tickets.end(), std::back_inserter(all));
            tickets = std::move(all);
        }
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
    for (const auto& [target, conditional] : launch.targets) target->begin_launch(conditional);
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
    for (const auto& [target, conditional] : launch.targets) {
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
    m_launches.remove_if([](const Launch& launch) { return launch.is_over(); });
    std::map<CUgraphExec, uint64_t> first;
    for (const Launch& launch : m_launches) first.emplace(launch.exec, launch.call);
    m_tickets.sweep(first);
    m_sweep_launches_at = 2 * (m_launches.size() + m_tickets.retired()) + 64;
}

/// The same for programs that do nothing but launch: mostly the first ones are over, and all are looked at now and then.
void GraphCopies::sweep_few() {
    while (!m_launches.empty() && m_launches.front().is_over()) m_launches.pop_front();
    if (m_launches.size() + m_tickets.retired() >= m_sweep_launches_at) sweep();
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
