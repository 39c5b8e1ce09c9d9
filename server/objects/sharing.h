// What a session shares with others of its tenant, and how it gets at what they share.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "common/base/mutex.h"
#include "common/net/socket.h"
#include "protocol/session/share_ticket.h"
#include "server/control/share_message.h"

namespace warpline::server {

using protocol::ShareKind;
using protocol::ShareRefusal;
using protocol::ShareTicket;

/// A session's table of what others may have, by the key of the ticket. The descriptors in it go from worker to worker; the
/// supervisor passes on the questions, and sees to it that both are sessions of one tenant.
///
/// @thread  any
class Sharing {
public:
    /// What a session can share at a time; each memory has a descriptor.
    static constexpr size_t k_max_shares = 16 * 1024;
    static constexpr std::chrono::milliseconds k_patience{10'000};

    /// Sends a request to the supervisor, with a descriptor that stays the caller's. False if that is not to be had.
    using Ask = std::function<bool(const ShareRequest& request, int fd)>;
    using ServerId = std::array<uint8_t, 8>;
    using SessionId = std::array<uint8_t, k_session_id_bytes>;
    using Key = std::array<uint8_t, 16>;

    Sharing(const ServerId& server, const SessionId& session, Ask ask)
        : m_server(server), m_session(session), m_ask(std::move(ask)) {}

    /// What is given to others. `file` is shared by all tickets for one mapping.
    struct Share {
        ShareKind kind{};
        std::shared_ptr<const net::Socket> file;  ///< null: there is none
        ShareAnswer answer{};
        uint64_t mapping = 0;  ///< where the memory is mapped here; 0: it does not go with a mapping
    };
    /// Nothing, if there are too many already.
    std::optional<ShareTicket> add(const Share& share) WL_EXCLUDES(m_mutex);
    /// The ticket that was made for this allocation, while its mapping lives.
    std::optional<ShareTicket> find(const Share& like) const WL_EXCLUDES(m_mutex);
    /// The descriptor that was made for a mapping, or null.
    std::shared_ptr<const net::Socket> file_of(uint64_t mapping) const WL_EXCLUDES(m_mutex);
    void forget(const ShareTicket& ticket) WL_EXCLUDES(m_mutex);
    /// Mappings in there have gone: others cannot have them any more (who has keeps them).
    void forget_mappings(uint64_t address, uint64_t bytes) WL_EXCLUDES(m_mutex);

    /// What another session shares: its answer, and a descriptor if there is one.
    struct Loan {
        ShareRefusal refused = ShareRefusal::none;
        ShareAnswer answer{};
        net::Socket file;
    };
    /// @blocks for the other session's worker, k_patience at most
    Loan borrow(BytesView ticket, ShareKind kind) WL_EXCLUDES(m_mutex);

    /// Answers another session's request. Never waits. @thread the worker's main one
    void lend(const ShareRequest& request, net::Socket answer_to) WL_EXCLUDES(m_mutex);

private:
    ShareTicket ticket_for(const Key& key, const Share& share) const;
    Loan lent(const ShareTicket& ticket) WL_EXCLUDES(m_mutex);
    Loan ask_other(const ShareTicket& ticket) const;

    const ServerId m_server;
    const SessionId m_session;
    const Ask m_ask;
    mutable Mutex m_mutex;
    std::map<Key, Share> m_shares WL_GUARDED_BY(m_mutex);
    std::multimap<uint64_t, Key> m_by_mapping WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
