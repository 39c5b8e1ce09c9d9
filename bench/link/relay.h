// The link emulator: a relay for TCP connections that gives their bytes what a link would (link_model.h).
#pragma once

#include <memory>
#include <string>

#include "bench/link/link_model.h"
#include "common/base/result.h"
#include "common/net/socket.h"

namespace warpline::bench {

/// What has passed a relay.
struct RelayTotals {
    uint64_t connections = 0;
    uint64_t bytes_up = 0, bytes_down = 0;  ///< to the target, from it
    uint64_t lost_packets = 0;
};

/// Accepts connections, opens one to the target for each, and moves bytes between them: all share one link. TCP ends at the
/// relay, on either side; what the machine's own TCP costs is added to the link's times (see calibrated()).
class Relay {
public:
    /// @param listen  its port may be 0; see port()
    /// @param why     set when it fails: one sentence for the user
    /// @errors        io, bad_argument, connect_refused (no such target), deadline (its name cannot be resolved in time)
    static Result<std::unique_ptr<Relay>> open(const net::Endpoint& listen, const net::Endpoint& target,
                                               const LinkProperties& link, std::string& why);
    ~Relay();
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;

    uint16_t port() const;
    /// Works until stop(). @blocks @thread one
    void run();
    /// Ends run(), and the connections. @thread any
    void stop();
    /// After run().
    RelayTotals totals() const;

private:
    struct State;
    explicit Relay(std::unique_ptr<State> state);
    std::unique_ptr<State> m_state;
};

/// A relay that works in a thread of its own for as long as the object lives.
class RunningRelay {
public:
    explicit RunningRelay(std::unique_ptr<Relay> relay);
    ~RunningRelay();
    uint16_t port() const;
    /// Ends it. @return what has passed
    RelayTotals stop();

private:
    struct Thread;
    std::unique_ptr<Thread> m_thread;
};

}  // namespace warpline::bench
