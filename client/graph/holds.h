// How long graphs keep what their nodes have of the program.
#pragma once

#include "client/call/common.h"

namespace warpline::client {

// What nodes of graphs have of the program — host functions, and copies from and to its memory — must be there as long as
// anything can run the node, and no longer: the memory may be anything then. That is how long user objects live: each such end
// is one of ours among the references of its graph, and so of every clone, executable graph and launch.

enum class EndKind : uint8_t { source, target, function };

/// The end with this number: a host call, or (a target) the call that made the copy.
UserObjectPtr make_end(Call& call, EndKind kind, uint64_t number);

/// A new node of a graph has it.
void hold_in_graph(Call& call, uint64_t graph, uint64_t node, const UserObjectPtr& end);
/// A node has it in place of what it had. A node that capture or cloning has made: the end lives as long as the session.
void hold_in_node(Call& call, uint64_t node, const UserObjectPtr& end);
/// A node that is being captured in a stream has it.
void hold_in_capture(Call& call, uint64_t stream, const UserObjectPtr& end);
/// A node of an executable graph has it in place of what it was given there before.
void hold_in_exec(Call& call, uint64_t exec, uint64_t node, const UserObjectPtr& end);

/// An executable graph has other references to user objects; launches under way keep theirs.
void exchange_references(GraphExec& exec, UserReferencesPtr references);

}  // namespace warpline::client
