// Functions of the client that the driver waits for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::server {

class ClientPort;
class AsyncCopies;
struct HostCopy;

/// Functions of the client's host that a stream or a graph runs. The driver's callback asks the client to run its function and
/// waits for the answer, so that the stream goes on only then.
class HostCalls {
public:
    using Copies = std::vector<std::weak_ptr<HostCopy>>;
    /// What the driver's callback is given. Lives until the function has run, or (in a graph) as long as GraphTickets says.
    struct Ticket {
        HostCalls& owner;
        uint64_t id;  ///< the client's name for the function
        bool once;
        bool is_left_out;  ///< the function does not run: its node is switched off
        // Of a graph's node, under the owner's mutex, in the launch at hand: copies to the client's memory that arrive there
        // before the function runs, and copies from it that are given their bytes when it has run.
        Copies flush, fetch;
    };
    static constexpr size_t k_max_tickets = 1u << 20;

    HostCalls(ClientPort& client, AsyncCopies& copies) : m_client(client), m_copies(copies) {}

    /// A ticket for the client's function `id`. Null if there are too many.
    /// @param once  it will run at most once, and ends with that
    Ticket* make_ticket(uint64_t id, bool once, bool is_left_out = false);
    /// The ticket that a host node was given as its user data; null if it is none.
    Ticket* find_ticket(const void* user_data);
    /// True once a node of a graph has a ticket.
    bool any_in_graphs();
    /// The nodes that have these tickets see to this copy from now on, and no others do. No launch with it is under way.
    /// @thread any
    void link(const std::shared_ptr<HostCopy>& copy, const std::vector<Ticket*>& tickets);
    /// A ticket that the driver refused.
    void drop_ticket(Ticket* ticket);

    /// Of a user object: drop_ticket(). @thread the driver's
    static void CUDA_CB forget(void* ticket);
    size_t tickets();

    /// For cuLaunchHostFunc and host nodes: the user data is a ticket. @blocks until the client has answered
    static void CUDA_CB run(void* ticket);
    /// For cuStreamAddCallback, which also runs, with the error, when the stream has failed.
    static void CUDA_CB run_with_status(CUstream stream, CUresult status, void* ticket);

    /// Asks the client for several functions at once, which it runs in this order. @blocks until it has answered all
    void ask(const std::vector<uint64_t>& ids, CUresult status);

    /// The client's answer. @thread reader
    void done(uint64_t id);
    /// No further answers: whoever waits goes on.
    void close();

private:
    void run_ticket(Ticket* ticket, CUresult status);

    ClientPort& m_client;
    AsyncCopies& m_copies;
    Mutex m_mutex;
    ConditionVariable m_answered;
    std::map<uint64_t, uint64_t> m_waiting WL_GUARDED_BY(m_mutex);  // id → answers still to come
    std::map<const void*, std::unique_ptr<Ticket>> m_tickets WL_GUARDED_BY(m_mutex);
    bool m_any_in_graphs WL_GUARDED_BY(m_mutex) = false;
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
};

}  // namespace warpline::server
