// Back-off, and the file.
#include "client/pool/quarantine.h"

#include <algorithm>
#include <charconv>

#include "client/pool/user_file.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

constexpr std::chrono::milliseconds k_first_rest{2'000};
/// More servers than a pool has.
constexpr size_t k_most_remembered = 256;
constexpr size_t k_most_bytes = 64 * 1024;
constexpr const char* k_file = "resting";

/// A number at the start of `text`, which is cut off with the space behind it. 0 if there is none.
int64_t take_number(std::string_view& text) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (error != std::errc() || !text.starts_with(' ')) return 0;
    text.remove_prefix(1);
    return number;
}

bool is_failure_of_server(Code code) {
    switch (code) {
        case Code::connect_refused:
        case Code::auth_failed:
        case Code::connection_lost:
        case Code::deadline:
        case Code::malformed:
        case Code::server_starting:
        case Code::version_mismatch: return true;
        default: return false;
    }
}

}  // namespace

void RestingServers::read(std::string_view text, Clock::time_point now) {
    while (!text.empty() && m_servers.size() < k_most_remembered) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const int64_t failures = take_number(line);
        const Clock::time_point until{std::chrono::milliseconds(take_number(line))};
        // Long over, or of a clock that has been set since.
        if (failures <= 0 || line.empty() || until + m_longest < now || until > now + m_longest) continue;
        m_servers[std::string(line)] = {static_cast<unsigned>(std::min<int64_t>(failures, 30)), until};
    }
}

std::string RestingServers::text() const {
    std::string text;
    for (const auto& [server, rest] : m_servers) {
        const auto until = std::chrono::duration_cast<std::chrono::milliseconds>(rest.until.time_since_epoch()).count();
        text += std::to_string(rest.failures) + " " + std::to_string(until) + " " + server + "\n";
    }
    return text;
}

bool RestingServers::rests(const std::string& server, Clock::time_point now) const {
    const auto found = m_servers.find(server);
    return found != m_servers.end() && now < found->second.until;
}

void RestingServers::failed(const std::string& server, Clock::time_point now) {
    if (m_longest.count() == 0 || rests(server, now)) return;
    if (m_servers.size() >= k_most_remembered && m_servers.count(server) == 0) return;
    Rest& rest = m_servers[server];
    rest.until = now + std::min(m_longest, k_first_rest * (int64_t{1} << std::min(rest.failures, 20u)));
    ++rest.failures;
}

std::vector<bool> Quarantine::resting(const std::vector<std::string>& servers) const {
    std::vector<bool> result(servers.size());
    if (m_longest.count() == 0) return result;
    const auto file = UserFile::open(k_file);
    if (!file.ok()) return result;
    const auto now = RestingServers::Clock::now();
    RestingServers table(m_longest);
    table.read(file->read(k_most_bytes), now);
    for (size_t i = 0; i < servers.size(); ++i) result[i] = table.rests(servers[i], now);
    return result;
}

void Quarantine::failed(const std::string& server, const Error& error) const {
    if (m_longest.count() == 0 || !is_failure_of_server(error.code)) return;
    auto file = UserFile::open(k_file);
    if (!file.ok()) return;
    const auto now = RestingServers::Clock::now();
    RestingServers table(m_longest);
    table.read(file->read(k_most_bytes), now);
    table.failed(server, now);
    file->write(table.text());
}

void Quarantine::well(const std::string& server) const {
    if (m_longest.count() == 0) return;
    auto file = UserFile::open(k_file);
    if (!file.ok()) return;
    RestingServers table(m_longest);
    const std::string before = file->read(k_most_bytes);
    table.read(before, RestingServers::Clock::now());
    table.well(server);
    if (const std::string after = table.text(); after != before) file->write(after);
}

}  // namespace warpline::client
