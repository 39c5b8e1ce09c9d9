// Asking the client, and keeping the driver's callback until it has answered.
#include "server/objects/host_calls.h"

#include <algorithm>
#include <utility>

#include "common/log/log.h"
#include "protocol/codec/outbox.h"
#include "server/objects/async_copies.h"
#include "server/objects/client_port.h"
#include "server/objects/host_copy.h"
#include "server/objects/send_event.h"

namespace warpline::server {

HostCalls::Ticket* HostCalls::make_ticket(uint64_t id, bool once, bool is_left_out) {
    auto ticket = std::unique_ptr<Ticket>(new Ticket{*this, id, once, is_left_out, {}, {}});
    Ticket* result = ticket.get();
    MutexLock lock(m_mutex);
    if (m_tickets.size() >= k_max_tickets) return nullptr;
    if (!once) m_any_in_graphs = true;
    m_tickets.emplace(result, std::move(ticket));
    return result;
}

HostCalls::Ticket* HostCalls::find_ticket(const void* user_data) {
    MutexLock lock(m_mutex);
    const auto found = m_tickets.find(user_data);
    return found != m_tickets.end() ? found->second.get() : nullptr;
}

bool HostCalls::any_in_graphs() {
    MutexLock lock(m_mutex);
    return m_any_in_graphs;
}

void HostCalls::link(const std::shared_ptr<HostCopy>& copy, const std::vector<Ticket*>& tickets) {
    MutexLock lock(m_mutex);
    const auto copies_of = [&](Ticket* ticket) -> Copies& { return copy->source == 0 ? ticket->flush : ticket->fetch; };
    // A ticket may lie where another one has gone, which knew the copy.
    const auto knows = [&](Ticket* ticket) WL_REQUIRES(m_mutex) {
        if (!m_tickets.contains(ticket)) return true;
        const Copies& copies = copies_of(ticket);
        return std::any_of(copies.begin(), copies.end(), [&](const auto& one) { return one.lock() == copy; });
    };
    if (copy->linked == tickets && std::all_of(tickets.begin(), tickets.end(), knows)) return;
    for (Ticket* ticket : std::exchange(copy->linked, tickets)) {
        if (!m_tickets.contains(ticket)) continue;  // gone with the executable graph that it was in
        std::erase_if(copies_of(ticket), [&](const auto& one) { return one.expired() || one.lock() == copy; });
    }
    for (Ticket* ticket : tickets) {
        if (m_tickets.contains(ticket)) copies_of(ticket).push_back(copy);
    }
}

void HostCalls::drop_ticket(Ticket* ticket) {
    MutexLock lock(m_mutex);
    m_tickets.erase(ticket);
}

void CUDA_CB HostCalls::forget(void* ticket) {
    auto* mine = static_cast<Ticket*>(ticket);
    mine->owner.drop_ticket(mine);
}

size_t HostCalls::tickets() {
    MutexLock lock(m_mutex);
    return m_tickets.size();
}

void CUDA_CB HostCalls::run(void* ticket) {
    auto* mine = static_cast<Ticket*>(ticket);
    mine->owner.run_ticket(mine, CUDA_SUCCESS);
}

void CUDA_CB HostCalls::run_with_status(CUstream, CUresult status, void* ticket) {
    auto* mine = static_cast<Ticket*>(ticket);
    mine->owner.run_ticket(mine, status);
}

void HostCalls::run_ticket(Ticket* ticket, CUresult status) {
    Copies flush, fetch;
    {
        MutexLock lock(m_mutex);
        flush = ticket->flush;
        fetch = ticket->fetch;
    }
    for (const auto& copy : flush) {
        if (const auto alive = copy.lock()) alive->send_once();
    }
    std::vector<uint64_t> ids;
    if (!ticket->is_left_out) ids.push_back(ticket->id);
    for (const auto& copy : fetch) {
        if (const auto alive = copy.lock()) ids.push_back(alive->source);
    }
    ask(ids, status);
    MutexLock lock(m_mutex);
    if (ticket->once) m_tickets.erase(ticket);
}

void HostCalls::ask(const std::vector<uint64_t>& ids, CUresult status) {
    // What the stream copied before must be in the client's memory when its function looks at it.
    m_copies.wait_queued_in_host_function();
    for (uint64_t id : ids) {
        {
            MutexLock lock(m_mutex);
            if (m_closed) return;
            ++m_waiting[id];
        }
        const auto sent = send_event(m_client.outbox(), [&](wire::Event::Builder event) {
            auto call = event.initHostCall();
            call.setId(id);
            call.setResult(static_cast<int32_t>(status));
        });
        if (sent.ok()) continue;
        MutexLock lock(m_mutex);
        m_waiting.erase(id);
    }
    MutexLock lock(m_mutex);
    for (uint64_t id : ids) {
        while (!m_closed && m_waiting.contains(id)) m_answered.wait(m_mutex);
    }
}

void HostCalls::done(uint64_t id) {
    MutexLock lock(m_mutex);
    const auto waiting = m_waiting.find(id);
    if (waiting == m_waiting.end()) {
        WL_LOG(warn, "session", "the client answers host call {}, which nobody asked for", id);
        return;
    }
    if (--waiting->second == 0) m_waiting.erase(waiting);
    m_answered.notify_all();
}

void HostCalls::close() {
    MutexLock lock(m_mutex);
    m_closed = true;
    m_answered.notify_all();
}

}  // namespace warpline::server
