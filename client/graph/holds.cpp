// How long what nodes of graphs have of the program lives.
#include "client/graph/holds.h"

#include <utility>

#include "client/graph/capture.h"

namespace warpline::client {

UserObjectPtr make_end(Call& call, EndKind kind, uint64_t number) {
    const auto end = [&session = call.session, &ends = call.state.graph_ends, kind, number] {
        if (kind == EndKind::target) {
            session.forget_graph_copy(number);
            ends.remove_target(number);
            return;
        }
        session.host_calls().forget(number);
        kind == EndKind::source ? ends.remove_source(number) : ends.remove_function(number);
    };
    return std::make_shared<UserObject>(1, end);
}

void hold_in_graph(Call& call, uint64_t graph, uint64_t node, const UserObjectPtr& end) {
    const UserReferencesPtr references = call.state.graphs.find(graph)->references;
    references->add(end, 1);
    GraphNode* made = call.state.graph_nodes.find(node);
    MutexLock lock(made->mutex);
    made->end = end;
    made->holder = references;
}

void hold_in_node(Call& call, uint64_t node, const UserObjectPtr& end) {
    GraphNode* changed = call.state.graph_nodes.find(node);
    UserReferencesPtr holder;
    UserObjectPtr before;
    {
        MutexLock lock(changed->mutex);
        holder = changed->holder;
        if (!holder) return;
        before = std::exchange(changed->end, end);
    }
    holder->add(end, 1);
    if (before) holder->remove(before, 1);
}

void hold_in_capture(Call& call, uint64_t stream, const UserObjectPtr& end) {
    auto references = std::make_shared<UserReferences>();
    references->add(end, 1);
    call.state.captures.keep(stream_state(call, stream)->capture_id.load(), std::move(references));
}

void hold_in_exec(Call& call, uint64_t exec, uint64_t node, const UserObjectPtr& end) {
    GraphExec* changed = call.state.graph_execs.find(exec);
    UserReferencesPtr now;
    UserObjectPtr before;
    {
        MutexLock lock(changed->mutex);
        now = changed->references;
        before = std::exchange(changed->ends[node], end);
    }
    UserReferencesPtr next = now ? now->clone() : std::make_shared<UserReferences>();
    if (before) next->remove(before, 1);
    next->add(end, 1);
    exchange_references(*changed, std::move(next));
}

void exchange_references(GraphExec& exec, UserReferencesPtr references) {
    if (references && references->empty()) references = nullptr;
    MutexLock lock(exec.mutex);
    exec.references.swap(references);  // the caller's end gives the earlier ones up, without the lock
}

}  // namespace warpline::client
