// Reading entries, asking for names, and keeping answers.
#include "client/pool/names.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/log/log.h"
#include "common/net/socket.h"

namespace warpline::client {

namespace {

constexpr uint32_t k_max_weight = 1000;
/// DNS servers that did not answer are left alone for so long.
constexpr std::chrono::seconds k_failure_kept{5};

/// Cuts "*3" off. False: it is no weight.
bool take_weight(std::string_view& text, uint32_t& weight) {
    const size_t star = text.find('*');
    if (star == std::string_view::npos) return true;
    const std::string_view number = text.substr(star + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
    text = text.substr(0, star);
    return error == std::errc() && end == number.data() + number.size() && weight > 0 && weight <= k_max_weight;
}

/// What a question was answered, or what is said of one that was not.
template <typename T>
net::Resolved<T> answer_of(net::Question<T>& question, Names::Clock::time_point until) {
    if (question.wait_until(until) == std::future_status::ready) return question.get();
    return {Error{Code::deadline, "no DNS server answers"}, "no DNS server answers in time"};
}

std::vector<PoolServer> servers_in(const PoolEntry& entry, const net::DnsAddresses& found) {
    std::vector<PoolServer> servers;
    // The dot that keeps DNS from looking elsewhere is in no certificate.
    const std::string host = entry.name.ends_with('.') ? entry.name.substr(0, entry.name.size() - 1) : entry.name;
    for (const std::string& address : found.addresses)
        servers.push_back({net::Endpoint{host, entry.port, {address}}.to_string(), entry.weight, 0});
    return servers;
}

std::vector<PoolServer> servers_in(const PoolEntry&, const net::DnsServices& found) {
    std::vector<PoolServer> servers;
    uint32_t rank = 0;
    uint16_t priority = found.services.front().priority;
    for (const net::DnsService& service : found.services) {
        if (std::exchange(priority, service.priority) != service.priority) ++rank;
        // A weight of 0 is "hardly ever" beside others, and nothing where all have it.
        servers.push_back({net::Endpoint{service.host, service.port, service.addresses}.to_string(),
                           std::max<uint32_t>(service.weight, 1), rank});
    }
    return servers;
}

template <typename T>
NameAnswer servers_of(const PoolEntry& entry, net::Resolved<T> answer) {
    NameAnswer result;
    result.why = std::move(answer.why);
    if (answer.value.ok()) {
        result.servers = servers_in(entry, *answer.value);
        result.ttl = answer.value->ttl;
    } else {
        result.servers = answer.value.error();
    }
    return result;
}

/// A question to DNS that is on its way, as Names waits for it.
template <typename T>
Names::Wait wait_for(const PoolEntry& entry, net::Question<T> asked) {
    auto question = std::make_shared<net::Question<T>>(std::move(asked));
    return [question, entry](Names::Clock::time_point until) { return servers_of(entry, answer_of(*question, until)); };
}

}  // namespace

Result<PoolEntry> parse_pool_entry(std::string_view text, std::string& why) {
    PoolEntry entry;
    entry.text = text;
    const auto bad = [&](const char* reason) {
        why = entry.text + ": " + reason;
        return Error{Code::bad_argument, reason};
    };
    if (text.starts_with("srv:")) {
        entry.kind = PoolEntry::Kind::services;
        entry.name = text.substr(4);
        if (!entry.name.starts_with('_') || entry.name.find_first_of(":*/@[ ") != std::string::npos)
            return bad("an SRV record is written as srv:_warpline._tcp.NAME; port and weight are in it");
        return entry;
    }
    const bool is_name = text.starts_with("dns:");
    if (is_name) text.remove_prefix(4);
    if (!take_weight(text, entry.weight)) return bad("a server's weight is a number from 1 to 1000");
    entry.name = text;
    const auto endpoint = net::parse_endpoint(text);
    if (!endpoint.ok())
        return bad(
            "not a server address; write host:port, unix:PATH, vsock:CID:PORT, dns:NAME:PORT or srv:_warpline._tcp.NAME");
    // An address stands for itself.
    if (!is_name) return entry;
    if (endpoint->kind != net::Endpoint::Kind::tcp) return bad("only names of TCP servers are asked for");
    if (net::is_numeric_address(endpoint->host)) return entry;
    if (!endpoint->addresses.empty()) return bad("a name that DNS is asked for has no address yet; write dns:NAME:PORT");
    entry.kind = PoolEntry::Kind::addresses;
    entry.name = endpoint->host;
    entry.port = endpoint->port;
    return entry;
}

Names::Expanded Names::expand(const std::vector<PoolEntry>& entries, Clock::time_point deadline) {
    std::vector<std::pair<const PoolEntry*, Wait>> asked;
    for (const PoolEntry& entry : entries) {
        if (entry.kind == PoolEntry::Kind::server) continue;
        {
            MutexLock lock(m_mutex);
            const auto kept = m_kept.find(entry.text);
            if (kept != m_kept.end() && m_now() < kept->second.until) continue;
        }
        asked.emplace_back(&entry, m_ask(entry));
    }
    for (auto& [entry, wait] : asked) keep(*entry, wait(deadline));
    Expanded expanded;
    MutexLock lock(m_mutex);
    for (const PoolEntry& entry : entries) {
        if (entry.kind == PoolEntry::Kind::server) {
            expanded.servers.push_back({entry.name, entry.weight, 0});
            continue;
        }
        const Kept& kept = m_kept[entry.text];
        expanded.servers.insert(expanded.servers.end(), kept.servers.begin(), kept.servers.end());
        if (!kept.servers.empty()) continue;
        expanded.last_error = kept.error;
        expanded.failed.push_back({entry.text, kept.why});
    }
    return expanded;
}

std::string Names::Expanded::reasons() const {
    std::string text;
    for (const Failure& failure : failed) text += (text.empty() ? "" : "; ") + failure.entry + ": " + failure.why;
    return text;
}

void Names::keep(const PoolEntry& entry, NameAnswer answer) {
    MutexLock lock(m_mutex);
    Kept& kept = m_kept[entry.text];
    if (answer.servers.ok()) {
        WL_LOG(info, "pool", "{}: {} servers, for {} s", entry.text, answer.servers->size(), answer.ttl.count());
        kept = {std::move(*answer.servers), Error{Code::ok}, "", m_now() + answer.ttl};
        return;
    }
    kept.until = m_now() + k_failure_kept;
    // Whoever does not answer does not say that the servers are gone.
    const bool goes_on = answer.servers.error().code == Code::deadline && !kept.servers.empty();
    WL_LOG(info, "pool", "{}: {}{}", entry.text, answer.why, goes_on ? "; what it stood for before is taken" : "");
    if (goes_on) return;
    kept.servers.clear();
    kept.error = answer.servers.error();
    kept.why = std::move(answer.why);
}

Names::Ask ask_dns(const net::Dns& dns) {
    return [dns](const PoolEntry& entry) -> Names::Wait {
        return entry.kind == PoolEntry::Kind::services ? wait_for(entry, dns.services(entry.name))
                                                       : wait_for(entry, dns.addresses(entry.name));
    };
}

}  // namespace warpline::client
