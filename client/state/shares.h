// What the program shares with other processes: memory of theirs that it has opened, and descriptors that it was given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "client/state/range_heap.h"
#include "common/base/mutex.h"
#include "common/net/socket.h"
#include "protocol/session/share_ticket.h"

namespace warpline::client {

/// Memory of another process: where it is mapped here, and how often the program has opened it.
struct OpenedMemory {
    uint64_t context = 0;  ///< token of the context that it was opened in
    uint64_t address = 0;  ///< of the allocation
    RangeHeap::Range block;
    unsigned uses = 1;
};

/// No message is sent while the lock is held: what has to be told is said by the caller.
///
/// @thread  any
class Shares {
public:
    using Ticket = protocol::ShareTicket;

    /// The address of what is open in this context already, which counts once more.
    bool is_open(const Ticket& ticket, uint64_t context) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        return std::any_of(m_opened.begin(), m_opened.end(), [&](const auto& one) {
            return one.second.ticket == ticket && one.second.memory.context == context;
        });
    }
    std::optional<uint64_t> open_again(const Ticket& ticket, uint64_t context) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        for (auto& [address, opened] : m_opened) {
            if (opened.ticket != ticket || opened.memory.context != context) continue;
            ++opened.memory.uses;
            return address;
        }
        return std::nullopt;
    }
    void add(const Ticket& ticket, const OpenedMemory& memory) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_opened[memory.address] = {ticket, memory};
    }
    /// One use less. Empty if nothing is open there; else what was, to be unmapped if no use is left.
    std::optional<OpenedMemory> close(uint64_t address) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const auto found = m_opened.find(address);
        if (found == m_opened.end()) return std::nullopt;
        --found->second.memory.uses;
        const OpenedMemory memory = found->second.memory;
        if (memory.uses == 0) m_opened.erase(found);
        return memory;
    }
    /// All uses end.
    std::optional<OpenedMemory> forget(uint64_t address) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const auto found = m_opened.find(address);
        if (found == m_opened.end()) return std::nullopt;
        const OpenedMemory memory = found->second.memory;
        m_opened.erase(found);
        return memory;
    }

    /// Other processes may have memory of ours by this ticket, as long as it is allocated.
    void lent(uint64_t address, const Ticket& ticket) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_lent[address] = ticket;
    }
    std::optional<Ticket> take_lent(uint64_t address) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const auto found = m_lent.extract(address);
        return found ? std::optional(found.mapped()) : std::nullopt;
    }

    /// The program was given the other end of this socket, in which the ticket lies.
    void gave(const Ticket& ticket, net::Socket end) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_given.push_back({ticket, std::move(end)});
    }
    /// Tickets whose descriptors are closed in every process.
    std::vector<Ticket> take_ended() WL_EXCLUDES(m_mutex);

private:
    struct Opened {
        Ticket ticket;
        OpenedMemory memory;
    };
    struct Given {
        Ticket ticket;
        net::Socket end;
    };
    Mutex m_mutex;
    std::map<uint64_t, Opened> m_opened WL_GUARDED_BY(m_mutex);  // by address
    std::map<uint64_t, Ticket> m_lent WL_GUARDED_BY(m_mutex);    // likewise
    std::vector<Given> m_given WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
