// Waiting for functions before code is loaded.
#include "client/call/load_turn.h"

#include <utility>

#include "client/call/common.h"
#include "client/session/session.h"

namespace warpline::client {

void LoadTurn::begin(Call& call) {
    // Within a function nothing can be waited for.
    if (m_session || HostCalls::in_callback()) return;
    if (!SharedPages::in_use()) {
        // Whoever begins to use such memory now finds this, or this finds that.
        call.session.load_turns().begin_load_beside();
        m_session = &call.session;
        m_beside = true;
        if (!SharedPages::in_use()) return;
    }
    wait_for_functions(call);
}

void LoadTurn::begin_use(Call& call) {
    if (m_session || HostCalls::in_callback()) return;
    const uint64_t last = call.session.load_turns().last_load_beside();
    if (call.session.host_calls().any_before(last) || call.session.graph_functions_pending(last)) wait_for_functions(call);
}

void LoadTurn::wait_for_functions(Call& call) {
    if (std::exchange(m_beside, false)) call.session.load_turns().end_load_beside(call.session.last_number());
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
    if (m_beside)
        m_session->load_turns().end_load_beside(m_session->last_number());
    else if (m_session)
        m_session->load_turns().end_load();
}

}  // namespace warpline::client
