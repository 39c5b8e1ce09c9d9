// Finding the server, and asking it.
#include "client/nvml/server_view.h"

#include <utility>
#include <vector>

#include "client/pool/candidates.h"
#include "client/pool/names.h"
#include "client/pool/poll.h"
#include "common/config/settings.h"
#include "common/log/log.h"

namespace warpline::client::nvml {

namespace {

using Clock = std::chrono::steady_clock;

/// After the first answer of several servers, for the others.
constexpr std::chrono::milliseconds k_others_have{250};

/// The servers that the settings name. @errors not_configured, bad_argument, and DNS's
Result<std::vector<PoolServer>> named_servers(const config::Settings& settings, std::chrono::milliseconds patience,
                                              std::string& why) {
    std::vector<PoolEntry> entries;
    for (const std::string& text : settings.text_list("servers")) entries.push_back(WL_TRY(parse_pool_entry(text, why)));
    if (entries.empty()) {
        why = "no server is configured: set WARPLINE_SERVERS=host:port, or start the program with `warpline run`";
        return Error{Code::not_configured, "no server is configured"};
    }
    const auto dns = net::Dns::at(settings.text("dns_server"));
    if (!dns.ok()) {
        why = log::format("'{}' is no DNS server (WARPLINE_DNS)", settings.text("dns_server"));
        return dns.error();
    }
    Names names(ask_dns(*dns));
    const auto expanded = names.expand(entries, Clock::now() + patience / 2);
    why = expanded.reasons();
    if (expanded.servers.empty()) return expanded.last_error;
    return expanded.servers;
}

/// Of several, the one that a program would be given. @errors the last server's
Result<std::string> best_of(const std::vector<PoolServer>& servers, const config::Settings& settings, const Identity& identity,
                            std::chrono::milliseconds patience, std::string& why) {
    const auto policy = policy_of(settings.text("policy")).value_or(Policy::least_connections);
    Candidates candidates(policy, 0, [](size_t) { return size_t{0}; });
    std::vector<std::string> addresses;
    for (const PoolServer& server : servers) addresses.push_back(server.address);
    const auto deadline = Clock::now() + patience;
    Poll poll(addresses, identity, deadline, policy == Policy::gpu_utilisation);
    Error last{Code::deadline, "no server has answered"};
    bool found = false;
    std::string reasons;
    auto until = deadline;
    while (const auto answer = poll.next(until)) {
        if (answer->connection == nullptr) {
            last = answer->error;
            reasons += (reasons.empty() ? "" : "; ") + answer->why;
            continue;
        }
        // One that takes nobody shows its devices all the same, if there is no other.
        auto status = answer->status;
        const bool full = !Candidates::why_not(status).empty();
        status.draining = false;
        status.max_sessions = std::max(status.max_sessions, status.sessions + 1);
        const PoolServer& server = servers[answer->index];
        candidates.add(answer->index, server.weight, status, answer->connection->round_trip_ms(),
                       server.rank + (full ? 1u << 16 : 0));
        if (!std::exchange(found, true)) until = std::min(deadline, Clock::now() + k_others_have);
    }
    if (const auto best = candidates.best()) return servers[*best].address;
    why = reasons.empty() ? "no server has answered in time" : reasons;
    return last;
}

}  // namespace

Result<std::unique_ptr<ServerView>> ServerView::open(std::string& why) {
    std::string problem;
    const config::Settings settings = config::load_client(problem);
    log::configure(settings.text("log"));
    if (!problem.empty()) WL_LOG(warn, "nvml", "{}", problem);
    const std::chrono::milliseconds patience = settings.seconds("connect_timeout");
    const auto servers = WL_TRY(named_servers(settings, patience, why));
    Identity identity = WL_TRY(Identity::load(settings, why));
    WL_TRY(identity.suits_any(settings.text_list("servers"), why));
    std::string server = servers.front().address;
    if (servers.size() > 1) server = WL_TRY(best_of(servers, settings, identity, patience, why));
    return std::unique_ptr<ServerView>(new ServerView(std::move(server), std::move(identity), patience));
}

Result<protocol::ServerStatus> ServerView::ask(std::string& why) const {
    const auto deadline = Clock::now() + m_patience;
    protocol::StatusRequest request;
    request.wants_sheets = true;
    const auto asked = [&]() -> Result<protocol::ServerStatus> {
        const auto connection = WL_TRY(StatusConnection::open(m_identity, m_server, deadline, why));
        return connection->ask(request, deadline, why);
    }();
    if (!asked.ok() && why.empty()) why = m_server + ": " + asked.error().what;
    return asked;
}

}  // namespace warpline::client::nvml
