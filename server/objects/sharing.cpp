// The table of what a session shares, and the way to another session's.
#include "server/objects/sharing.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "common/log/log.h"
#include "common/net/descriptor_message.h"
#include "common/net/keyed_hash.h"

namespace warpline::server {

ShareTicket Sharing::ticket_for(const Key& key, const Share& share) const {
    ShareTicket ticket;
    ticket.kind = share.kind;
    ticket.server = m_server;
    ticket.session = m_session;
    ticket.key = key;
    ticket.mapped_bytes = share.answer.mapped_bytes;
    return ticket;
}

std::optional<ShareTicket> Sharing::add(const Share& share) {
    const auto random = net::random_key();
    if (!random.ok()) return std::nullopt;
    Key key{};
    std::copy_n(random->begin(), key.size(), key.begin());
    MutexLock lock(m_mutex);
    if (m_shares.size() >= k_max_shares) return std::nullopt;
    m_shares[key] = share;
    if (share.mapping != 0) m_by_mapping.emplace(share.mapping, key);
    return ticket_for(key, share);
}

std::optional<ShareTicket> Sharing::find(const Share& like) const {
    MutexLock lock(m_mutex);
    const auto [first, last] = m_by_mapping.equal_range(like.mapping);
    for (auto it = first; it != last; ++it) {
        const Share& share = m_shares.at(it->second);
        if (share.kind != like.kind || std::memcmp(&share.answer, &like.answer, sizeof share.answer) != 0) continue;
        return ticket_for(it->second, share);
    }
    return std::nullopt;
}

std::shared_ptr<const net::Socket> Sharing::file_of(uint64_t mapping) const {
    MutexLock lock(m_mutex);
    const auto found = m_by_mapping.find(mapping);
    return found != m_by_mapping.end() ? m_shares.at(found->second).file : nullptr;
}

void Sharing::forget(const ShareTicket& ticket) {
    MutexLock lock(m_mutex);
    const auto found = m_shares.find(ticket.key);
    if (found == m_shares.end()) return;
    std::erase_if(m_by_mapping, [&](const auto& item) { return item.second == ticket.key; });
    m_shares.erase(found);
}

void Sharing::forget_mappings(uint64_t address, uint64_t bytes) {
    MutexLock lock(m_mutex);
    auto it = m_by_mapping.lower_bound(address);
    while (it != m_by_mapping.end() && it->first - address < bytes) {
        m_shares.erase(it->second);
        it = m_by_mapping.erase(it);
    }
}

Sharing::Loan Sharing::borrow(BytesView bytes, ShareKind kind) {
    const auto ticket = protocol::read_ticket(bytes, kind);
    Loan refused;
    refused.refused = ShareRefusal::other_kind;
    if (!ticket) return refused;
    refused.refused = ShareRefusal::other_server;
    if (ticket->server != m_server) return refused;
    if (ticket->session == m_session) return lent(*ticket);
    return ask_other(*ticket);
}

/// The session's own.
Sharing::Loan Sharing::lent(const ShareTicket& ticket) {
    Loan loan;
    loan.refused = ShareRefusal::own;
    // CUDA opens in the process that shares them neither memory nor events by their handles of 64 bytes.
    if (ticket.kind == ShareKind::memory || ticket.kind == ShareKind::event) return loan;
    MutexLock lock(m_mutex);
    const auto found = m_shares.find(ticket.key);
    loan.refused = ShareRefusal::not_there;
    if (found == m_shares.end() || found->second.kind != ticket.kind) return loan;
    loan.refused = ShareRefusal::none;
    loan.answer = found->second.answer;
    if (!found->second.file) return loan;
    loan.file = net::Socket(fcntl(found->second.file->fd(), F_DUPFD_CLOEXEC, 0));
    if (!loan.file.valid()) loan.refused = ShareRefusal::out_of_files;
    return loan;
}

Sharing::Loan Sharing::ask_other(const ShareTicket& ticket) const {
    Loan loan;
    loan.refused = ShareRefusal::out_of_files;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return loan;
    const net::Socket own(ends[0]);
    net::Socket other(ends[1]);
    ShareRequest request{};
    std::copy(ticket.session.begin(), ticket.session.end(), request.session_id);
    std::copy(ticket.key.begin(), ticket.key.end(), request.key);
    request.kind = static_cast<uint32_t>(ticket.kind);
    loan.refused = ShareRefusal::no_answer;
    if (!m_ask || !m_ask(request, other.fd())) return loan;
    other.close();  // so that the end of who is to answer shows
    pollfd watched{own.fd(), POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(k_patience.count())) <= 0) return loan;
    net::DescriptorMessage descriptors;
    iovec part{&loan.answer, sizeof loan.answer};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    descriptors.make_room(header);
    const ssize_t received = recvmsg(own.fd(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (received < 0) return loan;
    loan.file = net::DescriptorMessage::take(header);
    // Cut off: there was a descriptor, and no room for it in this process.
    const bool cut = (header.msg_flags & MSG_CTRUNC) != 0;
    loan.refused = received != static_cast<ssize_t>(sizeof loan.answer) ? ShareRefusal::no_answer
                   : cut                                                ? ShareRefusal::out_of_files
                                                                        : static_cast<ShareRefusal>(loan.answer.refused);
    return loan;
}

void Sharing::lend(const ShareRequest& request, net::Socket answer_to) {
    ShareAnswer answer{};
    answer.refused = static_cast<uint32_t>(ShareRefusal::not_there);
    std::shared_ptr<const net::Socket> file;
    Key key;
    std::copy_n(request.key, key.size(), key.begin());
    {
        MutexLock lock(m_mutex);
        const auto found = m_shares.find(key);
        if (found != m_shares.end() && static_cast<uint32_t>(found->second.kind) == request.kind) {
            answer = found->second.answer;
            file = found->second.file;
        }
    }
    send_share_answer(answer_to.fd(), answer, file ? file->fd() : -1);
}

}  // namespace warpline::server
