// Edges between nodes that the program has added: those to a node are known here, and change only by calls of its own.
#pragma once

#include <cstdint>
#include <span>

#include "client/call/common.h"

namespace warpline::client {

/// Edges as calls have them: from the one to the other node with the same index. Tokens of nodes that there are.
struct Edges {
    uint64_t graph = 0;  ///< token
    std::span<const uint64_t> from, to;
};

/// True if the driver can only accept them as new ones. False: they may be there already, are none, or it is not known.
bool are_new(const State& state, const Edges& edges);
/// True if it can only accept that they are taken away.
bool are_there(const State& state, const Edges& edges);

void note_new(const State& state, const Edges& edges);
/// Added with data: what the driver makes of further edges between such nodes it has to say.
void note_with_data(const State& state, const Edges& edges);
void note_gone(const State& state, const Edges& edges);

}  // namespace warpline::client
