// Waiting for functions before code is loaded.
#include "client/call/load_turn.h"

#include "client/call/common.h"
#include "client/session/session.h"

namespace warpline::client {

void LoadTurn::begin(Call& call) {
    if (SharedPages::in_use()) begin_use(call);
}

void LoadTurn::begin_use(Call& call) {
    // Within a function nothing can be waited for.
    if (m_session || HostCalls::in_callback()) return;
    m_session = &call.session;
    const auto contexts = call.session.load_turns().begin_load();
    if (call.session.host_calls().idle() && !call.session.graph_functions_pending()) return;
    for (const uint64_t context : contexts) {
        const Context* found = call.state.contexts.find(context);
        if (!found || !found->active()) continue;
        Call own = call;
        if (context != call.context) own.converted = 0;
        own.context = context;
        // Its result is told to the program by its own calls.
        (void)wait_beside_captures(own);
    }
}

LoadTurn::~LoadTurn() {
    if (m_session) m_session->load_turns().end_load();
}

}  // namespace warpline::client
