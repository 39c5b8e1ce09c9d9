// What has to be over before code is loaded.
#pragma once

#include "client/call/call.h"

namespace warpline::client {

/// While it has begun, calls can be queued for which the server's driver loads code: images, the names of functions, their
/// first launch. The program's functions that streams have called have returned by then, if they may need the driver
/// (LoadTurns).
class LoadTurn {
public:
    LoadTurn() = default;
    explicit LoadTurn(Call& call) { begin(call); }
    ~LoadTurn();
    LoadTurn(const LoadTurn&) = delete;
    LoadTurn& operator=(const LoadTurn&) = delete;

    /// Where no memory is used by both sides, a function needs no driver: nothing is waited for.
    /// @blocks for work under way, where functions are part of it
    void begin(Call& call);
    /// Memory is used by both sides from now on: what was loaded before has not waited.
    /// @blocks as begin(), if functions were given to streams before such a load
    void begin_use(Call& call);

private:
    void wait_for_functions(Call& call);
    Session* m_session = nullptr;
    bool m_beside = false;  // functions
};

}  // namespace warpline::client
