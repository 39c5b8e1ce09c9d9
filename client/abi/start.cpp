// Finding a server that takes this program, and preparing for its devices.
#include "client/abi/start.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "client/pool/choice.h"
#include "client/pool/names.h"
#include "client/pool/quarantine.h"
#include "client/report/watch_socket.h"
#include "client/session/address_window.h"
#include "client/session/connection_to_server.h"
#include "common/config/environment.h"
#include "common/log/log.h"
#include "common/net/socket.h"
#include "common/net/tls.h"

namespace warpline::client {

namespace {

/// How to connect, and what somebody who watches this process needs to do the same.
struct StartSettings {
    ConnectionSettings connection;
    SessionReport report;
};

/// Where to connect.
struct ServerPool {
    std::vector<PoolEntry> entries;
    Policy policy = Policy::least_connections;
    std::chrono::milliseconds wait{0};  ///< while all are full
    Quarantine quarantine{std::chrono::seconds(0)};
};

/// Answers of DNS are kept for as long as they hold, also by programs that call cuInit again.
Names& known_names(const net::Dns& dns) {
    static auto* const names = new Names(ask_dns(dns));  // no thread of the program outlives it
    return *names;
}

std::string program_name() {
    char path[4096];
    ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0) return "?";
    std::string name(path, static_cast<size_t>(length));
    return name.substr(name.rfind('/') + 1);
}

/// Takes over the range that the server could reserve, if it is another one than ours.
Result<void> agree_on_window(const ServerInfo& info, AddressWindow& window, std::string& why) {
    if (info.window_base == window.base && info.window_bytes == window.size_bytes) return {};
    release_window(window);
    window = {info.window_base, info.window_bytes};
    // A driver that cannot map: its memory has addresses of its own, each claimed when it is known.
    if (window.size_bytes == 0) return {};
    if (reserve_window_at(window)) return {};
    why = log::format("{}: its device addresses ({:#x}, {} bytes) are in use in this program", info.address, info.window_base,
                      info.window_bytes);
    window = {};
    return Error{Code::alloc_failed, "the server's address range is in use"};
}

/// For another process. Empty if there is no working directory.
std::string absolute_path(const std::string& path) {
    char folder[4096];
    if (path.rfind('/', 0) == 0) return path;
    return ::getcwd(folder, sizeof folder) != nullptr ? std::string(folder) + "/" + path : std::string();
}

/// Connects to who watches this process, if anybody does. An invalid socket: nobody.
net::Socket find_watcher() {
    const char* name = config::variable(k_report_variable);
    if (name == nullptr) return {};
    auto watcher = connect_to_watcher(name);
    if (!watcher.ok()) WL_LOG(info, "client", "{}: {}", name, watcher.error().what);
    return watcher.ok() ? std::move(*watcher) : net::Socket();
}

/// Connects to a server. What is cut before there is a session loses nothing by beginning anew.
Result<std::unique_ptr<Session>> connect_session(StartSettings& start, const std::function<void(CUresult)>& on_end,
                                                 std::string& why) {
    constexpr unsigned k_most_cuts = 5;
    for (unsigned cuts = 0;; ++cuts) {
        net::Socket watcher = find_watcher();
        // A program that does not come back need not be waited for while it lives.
        start.connection.reported = watcher.valid() && start.connection.grace.count() > 0;
        auto session = Session::connect(start.connection, on_end, why);
        if (session.ok() && watcher.valid()) (*session)->report_to(std::move(watcher), start.report);
        if (session.ok() || cuts == k_most_cuts) return session;
        const Code code = session.error().code;
        if (code != Code::connection_lost && code != Code::malformed) return session;
        WL_LOG(info, "client", "{}; beginning anew", why);
    }
}

/// Connects to a server and agrees with it on a range of addresses; a range that one of the two cannot have is given up for
/// another.
Result<std::unique_ptr<Session>> connect_with_window(StartSettings& start, const std::function<void(CUresult)>& on_end,
                                                     std::string& why) {
    constexpr unsigned k_attempts = 3;
    for (unsigned attempt = 0;; ++attempt) {
        AddressWindow window = reserve_window(attempt);
        start.connection.window_base = window.base;
        start.connection.window_bytes = window.size_bytes;
        auto session = connect_session(start, on_end, why);
        if (!session.ok()) {
            release_window(window);
            return session;
        }
        auto agreed = agree_on_window((*session)->info(), window, why);
        if (agreed.ok()) return session;
        (*session)->finish();
        if (attempt + 1 == k_attempts) return agreed.error();
        WL_LOG(info, "client", "{}; asking for another range", why);
    }
}

Result<std::unique_ptr<Session>> connect_to(const std::string& server, StartSettings& start,
                                            const std::function<void(CUresult)>& on_end, std::string& why) {
    start.connection.server = server;
    auto session = connect_with_window(start, on_end, why);
    if (!session.ok() && why.empty()) why = log::format("{}: {}", server, session.error().what);
    return session;
}

/// Asks all servers, and goes through those that can take us, the best one first. @errors quota: one is full
Result<std::unique_ptr<Session>> connect_to_best(const ServerPool& pool, Names& names, StartSettings& start,
                                                 const std::function<void(CUresult)>& on_end, std::string& why) {
    // Half of the time is for connecting.
    const auto expanded = names.expand(pool.entries, Names::Clock::now() + start.connection.connect_timeout / 2);
    if (expanded.servers.empty()) {
        why = expanded.reasons();
        return expanded.last_error;
    }
    // One alone is asked only if we would wait for it: a question is cheaper than an attempt.
    if (expanded.servers.size() == 1 && expanded.failed.empty() && pool.wait.count() == 0)
        return connect_to(expanded.servers.front().address, start, on_end, why);
    ServerChoice choice(expanded.servers, pool.policy, start.connection.identity, start.connection.connect_timeout,
                        pool.quarantine);
    if (!expanded.failed.empty()) choice.refused(expanded.last_error, expanded.reasons());
    while (const auto server = choice.next()) {
        std::string reason;
        auto session = connect_to(*server, start, on_end, reason);
        if (session.ok()) {
            pool.quarantine.well(*server);
            return session;
        }
        pool.quarantine.failed(*server, session.error());
        choice.refused(session.error(), reason);
    }
    why = choice.reasons();
    return choice.last_error();
}

/// The same, again and again while a server is full, for as long as the user wants to wait.
Result<std::unique_ptr<Session>> connect_when_free(const ServerPool& pool, Names& names, StartSettings& start,
                                                   const std::function<void(CUresult)>& on_end, std::string& why) {
    using Clock = std::chrono::steady_clock;
    // Few enough questions for a server on which hundreds wait, each at its own time.
    std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<int> pause_ms(500, 1500);
    const auto until = Clock::now() + pool.wait;
    for (bool told = false;; told = true) {
        why.clear();
        auto session = connect_to_best(pool, names, start, on_end, why);
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        if (session.ok() || session.error().code != Code::quota || left.count() <= 0) return session;
        if (!told)
            WL_LOG(warn, "client", "{}; waiting for a place for up to {} s (WARPLINE_WAIT)", why,
                   std::chrono::duration_cast<std::chrono::seconds>(pool.wait).count());
        std::this_thread::sleep_for(std::min(left, std::chrono::milliseconds(pause_ms(random))));
    }
}

/// What the settings say of servers. @errors not_configured, bad_argument
Result<ServerPool> read_pool(const config::Settings& settings, std::string& why) {
    ServerPool pool;
    for (const std::string& text : settings.text_list("servers")) pool.entries.push_back(WL_TRY(parse_pool_entry(text, why)));
    if (pool.entries.empty()) {
        why = "no server is configured: set WARPLINE_SERVERS=host:port, or start the program with `warpline run`";
        return Error{Code::not_configured, "no server is configured"};
    }
    const auto policy = policy_of(settings.text("policy"));
    if (!policy) {
        why = log::format(
            "'{}' is no way to choose a server (WARPLINE_POLICY): least_connections, round_robin, weighted, gpu_utilisation, "
            "in_order",
            settings.text("policy"));
        return Error{Code::bad_argument, "no such policy"};
    }
    pool.policy = *policy;
    pool.wait = settings.seconds("wait_seconds");
    pool.quarantine = Quarantine(settings.seconds("quarantine_seconds"));
    return pool;
}

/// Why a kernel may have failed that natively would not.
constexpr std::string_view k_unmapped_memory =
    "a kernel used an address that the device does not have. If it is page-locked memory of the program's: that is the "
    "device's only "
    "where its address was passed to a kernel, copied to the device (in no more than 64 KiB) or written to memory that kernels "
    "use, "
    "or where it was allocated with cudaHostAllocMapped (docs/host-memory.md)";

void prepare_state(State& state, ServerInfo& info) {
    // Memory that program and device share needs addresses that both have.
    if (info.window_bytes == 0)
        for (Device& device : info.devices)
            device.attributes[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = device.attributes[CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] =
                0;
    for (size_t ordinal = 0; ordinal < info.devices.size(); ++ordinal) {
        auto made = state.contexts.make();
        made.object->token = made.token;
        made.object->id = state.next_id();
        made.object->device = static_cast<int>(ordinal);
        made.object->primary = true;
        made.object->attached.store(0);
        info.devices[ordinal].primary_context = made.token;
    }
    // The upper part is for page-locked memory of the program's, which is told from the device's by its address.
    constexpr uint64_t k_block = DeviceMemory::k_block_bytes;
    const uint64_t host_bytes = info.window_bytes / 8 / k_block * k_block;
    state.memory.set_window(info.window_base, info.window_bytes - host_bytes);
    state.host_memory.set_window(info.window_base + info.window_bytes - host_bytes, host_bytes);
}

}  // namespace

Result<std::unique_ptr<Session>> start_session(State& state, const config::Settings& settings,
                                               std::function<void(CUresult)> on_end, std::string& why) {
    const ServerPool pool = WL_TRY(read_pool(settings, why));
    const auto dns = net::Dns::at(settings.text("dns_server"));
    if (!dns.ok()) {
        why = log::format("'{}' is no DNS server's address (WARPLINE_DNS); write 10.0.0.53, 127.0.0.1:8600 or [::1]:53",
                          settings.text("dns_server"));
        return dns.error();
    }
    StartSettings start;
    ConnectionSettings& connection = start.connection;
    connection.identity = WL_TRY(Identity::load(settings, why));
    WL_TRY(connection.identity.suits_any(settings.text_list("servers"), why));
    if (connection.identity.has_certificate()) {
        start.report.ca = absolute_path(settings.path("ca"));
        start.report.certificate = absolute_path(settings.path("certificate"));
        start.report.key = absolute_path(settings.path("key"));
    }
    connection.connect_timeout = settings.seconds("connect_timeout");
    connection.heartbeat =
        protocol::HeartbeatOptions::of(settings.seconds("heartbeat_seconds"), settings.seconds("heartbeat_lost_seconds"),
                                       settings.seconds("heartbeat_stopped_seconds"));
    connection.grace = settings.seconds("grace_seconds");
    start.report.grace = connection.grace;
    connection.reconnect_first = std::chrono::milliseconds(settings.integer("reconnect_first_ms"));
    connection.reconnect_longest = std::chrono::milliseconds(settings.integer("reconnect_longest_ms"));
    connection.credit = {settings.bytes("credit_bytes"), static_cast<uint64_t>(settings.integer("credit_calls"))};
    if (settings.was_refused("memory")) {
        why = "the limit of device memory that was asked for cannot be read (WARPLINE_MEMORY)";
        return Error{Code::bad_argument, "no such amount of memory"};
    }
    connection.memory_bytes = settings.bytes("memory");
    connection.bulk_lanes = config::bulk_lanes_of(settings);
    connection.bulk_lanes_after = settings.bytes("bulk_lanes_after");
    std::string problem;
    connection.switches = config::Switches(settings, problem);
    if (!problem.empty()) WL_LOG(warn, "client", "{}", problem);
    net::use_bbr(connection.switches.uses(config::Optimisation::congestion));
    net::use_wide_aes(connection.switches.uses(config::Optimisation::aes));
    if (!connection.switches.uses(config::Optimisation::lanes)) connection.bulk_lanes = 0;
    if (connection.switches.uses(config::Optimisation::spin)) connection.spin = config::spin_of(settings);
    const auto compression = compress::parse_wish(settings.text("compression"));
    if (!compression.ok()) {
        why = log::format("'{}' names no compression (WARPLINE_COMPRESS); write auto, none, lz4, zstd or zstd:1 to zstd:19",
                          settings.text("compression"));
        return compression.error();
    }
    if (connection.switches.uses(config::Optimisation::compression)) {
        connection.compression = *compression;
    } else {
        connection.compression.codecs = {};
    }
    connection.program = program_name();
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
        if (*visible == 0) {
            why = "CUDA_VISIBLE_DEVICES is set and empty: the program wants no GPU";
            return Error{Code::not_configured, "no GPU is wanted"};
        }
        connection.visible_devices = visible;
    }
    auto session = connect_when_free(pool, known_names(*dns), start, on_end, why);
    if (session.ok()) {
        prepare_state(state, (*session)->mutable_info());
        (*session)->explain_illegal_address([&state] {
            if (state.host_memory.may_be_passed()) WL_LOG(warn, "client", "{}", k_unmapped_memory);
        });
        WL_LOG(info, "client", "connected to {} ({})", (*session)->info().address, (*session)->info().name);
    }
    return session;
}

}  // namespace warpline::client
