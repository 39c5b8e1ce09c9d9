// Asking, and printing.
#include "server/daemon/operator_command.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/log/log.h"
#include "server/control/operator_socket.h"

namespace warpline::server {

namespace {

using Row = std::vector<std::string>;

/// Columns as wide as what is in them; the first row is the heading.
void print_table(const std::vector<Row>& rows) {
    std::vector<size_t> widths;
    for (const Row& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const Row& row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            line += row[i];
            if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
        }
        std::puts(line.c_str());
    }
}

std::string mebibytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string duration(int64_t seconds) { return log::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60); }

/// The answer; null, with a line on stderr, if there is none. The connection stays open.
nlohmann::json ask_server(const std::string& address, const char* request, net::Socket& socket) {
    auto connected = connect_as_operator(address);
    if (!connected.ok()) {
        std::fprintf(stderr, "gpu-server: %s: %s%s\n", address.c_str(), connected.error().what,
                     connected.error().detail == ECONNREFUSED ? " (--listen names another address)" : "");
        return nullptr;
    }
    socket = std::move(*connected);
    std::string text(k_most_answer_bytes, '\0');
    ssize_t length = send(socket.fd(), request, std::strlen(request), MSG_NOSIGNAL);
    if (length > 0) length = recv(socket.fd(), text.data(), text.size(), 0);
    const auto answer = nlohmann::json::parse(text.substr(0, length > 0 ? static_cast<size_t>(length) : 0), nullptr, false);
    if (answer.is_object()) return answer;
    std::fprintf(stderr, "gpu-server: %s: the server gives no answer (is this another user's?)\n", address.c_str());
    return nullptr;
}

void print_status(const nlohmann::json& status) {
    const int version = status["driver"]["version"];
    std::printf("gpu-server %s at %s, process %d, up %s%s\n", status["version"].get<std::string>().c_str(),
                status["address"].get<std::string>().c_str(), status["pid"].get<int>(),
                duration(status["uptime_seconds"]).c_str(), status["draining"].get<bool>() ? ", draining" : "");
    std::printf("Sessions %zu / %u, workers ready %u, starting %zu, waiting for one %zu\n", status["sessions"].get<size_t>(),
                status["max_sessions"].get<unsigned>(), status["workers_ready"].get<unsigned>(),
                status["workers_starting"].get<size_t>(), status["sessions_waiting"].get<size_t>());
    if (status["turns"]["taken"].get<bool>())
        std::printf("Sessions take turns, %zu at a time: more are at work than the processors do well together\n",
                    status["turns"]["at_a_time"].get<size_t>());
    std::printf("Driver %s %d.%d\n\n", status["driver"]["kind"].get<std::string>().c_str(), version / 1000,
                version % 1000 / 10);
    std::vector<Row> rows{{"GPU", "Name", "PCI bus", "Capability", "Memory", "Free", "Utilised"}};
    for (const auto& device : status["devices"])
        rows.push_back(
            {std::to_string(device["ordinal"].get<int>()), device["name"], device["pci_bus_id"], device["compute_capability"],
             mebibytes(device["total_bytes"]), device["free_bytes"].is_null() ? "-" : mebibytes(device["free_bytes"]),
             device["utilisation_percent"].is_null() ? "-" : std::to_string(device["utilisation_percent"].get<int>()) + " %"});
    print_table(rows);
    if (status["running"].empty()) return;
    std::puts("");
    rows = {{"Session", "Tenant", "Program", "From", "Since", "Calls", "Memory", "Worker"}};
    for (const auto& session : status["running"])
        rows.push_back({session["id"].get<std::string>().substr(0, 8), session["tenant"], session["program"], session["peer"],
                        duration(session["seconds"]), std::to_string(session["calls"].get<uint64_t>()),
                        mebibytes(session["device_bytes"]), std::to_string(session["worker_pid"].get<int>())});
    print_table(rows);
}

}  // namespace

int operator_status(const std::string& address, bool json, bool ready) {
    net::Socket socket;
    const auto status = ask_server(address, "status", socket);
    if (status.is_null()) return 1;
    if (json) {
        std::puts(status.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else if (!ready) {
        print_status(status);
    }
    if (!ready || status["ready"].get<bool>()) return 0;
    std::fprintf(stderr, "gpu-server: %s takes no sessions: %s\n", address.c_str(),
                 status["not_ready_because"].get<std::string>().c_str());
    return 1;
}

int operator_drain(const std::string& address, bool wait) {
    net::Socket socket;
    const auto status = ask_server(address, "drain", socket);
    if (status.is_null()) return 1;
    const size_t sessions = status["sessions"];
    std::printf("%s %s: %zu session%s running\n", address.c_str(),
                status["was_draining"].get<bool>() ? "is draining already" : "is draining", sessions,
                sessions == 1 ? " is" : "s are");
    std::fflush(stdout);
    if (!wait) return 0;
    // The connection ends with the server.
    char byte;
    while (recv(socket.fd(), &byte, 1, 0) < 0 && errno == EINTR) {
    }
    std::printf("%s has ended\n", address.c_str());
    return 0;
}

}  // namespace warpline::server
