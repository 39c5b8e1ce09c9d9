// Finding the server, and asking it.
#include "client/nvml/server_view.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "client/pool/candidates.h"
#include "client/pool/names.h"
#include "client/pool/poll.h"
#include "common/base/scope_guard.h"
#include "common/config/settings.h"
#include "common/log/log.h"

namespace warpline::client::nvml {

namespace {

using Clock = std::chrono::steady_clock;

/// After the first answer of several servers, for the others.
constexpr std::chrono::milliseconds k_others_have{250};
/// Above every priority of an SRV record.
constexpr uint32_t k_last_rank = 1u << 16;

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

using DeviceUuid = std::array<uint8_t, 16>;

/// A device of this program's session, if it has one. Our libcuda.so.1 begins none for being asked.
std::optional<DeviceUuid> device_of_session() {
    void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return std::nullopt;
    const ScopeGuard closed([library] { ::dlclose(library); });
    using Function = int (*)(DeviceUuid*, int);
    const auto function = reinterpret_cast<Function>(::dlsym(library, "cuDeviceGetUuid_v2"));
    DeviceUuid uuid{};
    const bool is_ours = ::dlsym(library, "warpline_client_marker") != nullptr;
    return is_ours && function != nullptr && function(&uuid, 0) == 0 ? std::optional(uuid) : std::nullopt;
}

/// What servers answer, until a while after the first one. @param why  those that have not
std::vector<Poll::Answer> hear(const std::vector<PoolServer>& servers, const Identity& identity, bool wants_load,
                               Clock::time_point deadline, Error& last, std::string& why) {
    std::vector<std::string> addresses;
    for (const PoolServer& server : servers) addresses.push_back(server.address);
    Poll poll(addresses, identity, deadline, wants_load);
    std::vector<Poll::Answer> heard;
    auto until = deadline;
    while (auto answer = poll.next(until)) {
        if (answer->connection != nullptr) {
            if (heard.empty()) until = std::min(deadline, Clock::now() + k_others_have);
            heard.push_back(std::move(*answer));
            continue;
        }
        last = answer->error;
        why += (why.empty() ? "" : "; ") + answer->why;
    }
    return heard;
}

/// Of several, the one that the program's session is on, else the one that it would be given. @errors the last server's
Result<std::string> best_of(const std::vector<PoolServer>& servers, const config::Settings& settings, const Identity& identity,
                            std::chrono::milliseconds patience, std::string& why) {
    const auto policy = policy_of(settings.text("policy")).value_or(Policy::least_connections);
    const auto deadline = Clock::now() + patience;
    Error last{Code::deadline, "no server has answered in time"};
    const auto heard = hear(servers, identity, policy == Policy::gpu_utilisation, deadline, last, why);
    const auto device = device_of_session();
    Candidates candidates(policy, 0, [](size_t) { return size_t{0}; });
    for (const Poll::Answer& answer : heard) {
        const PoolServer& server = servers[answer.index];
        if (device) {
            protocol::StatusRequest request;
            request.wants_sheets = true;
            std::string unheard;
            const auto status = answer.connection->ask(request, deadline, unheard);
            const auto is_it = [&device](const protocol::DeviceSheet& sheet) { return sheet.uuid == *device; };
            if (status.ok() && std::any_of(status->sheets.begin(), status->sheets.end(), is_it)) return server.address;
        }
        // One that takes nobody shows its devices all the same, if there is no other.
        auto status = answer.status;
        const bool full = !Candidates::why_not(status).empty();
        status.draining = false;
        status.max_sessions = std::max(status.max_sessions, status.sessions + 1);
        const uint32_t rank = server.rank + (full ? k_last_rank : 0);
        candidates.add(answer.index, server.weight, status, answer.connection->round_trip_ms(), rank);
    }
    if (const auto best = candidates.best()) return servers[*best].address;
    if (why.empty()) why = last.what;
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
