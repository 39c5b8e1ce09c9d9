// Users by name and number.
#include "server/door/unix_tenants.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "common/log/log.h"

namespace warpline::server {

namespace {

/// Whom the kernel names where a user of another namespace has no number in ours: it may be anybody.
constexpr uint32_t k_overflow_user = 65534;
constexpr size_t k_most_tenant_bytes = 127;

bool parse_number(const std::string& text, uint32_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return !text.empty() && error == std::errc{} && end == text.data() + text.size();
}

bool is_usable(const std::string& tenant) {
    return !tenant.empty() && tenant.size() <= k_most_tenant_bytes &&
           std::all_of(tenant.begin(), tenant.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

/// The name that the system has for a user; the number if it has none.
std::string name_of_user(uint32_t user) {
    std::vector<char> room(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(user, &entry, room.data(), room.size(), &found) != 0 || found == nullptr) return std::to_string(user);
    return found->pw_name;
}

bool find_user(const std::string& name, uint32_t& user) {
    std::vector<char> room(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    if (getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr) return false;
    user = found->pw_uid;
    return true;
}

}  // namespace

Result<UnixTenants> UnixTenants::parse(const std::vector<std::string>& entries, std::string& problem) {
    UnixTenants tenants;
    for (const std::string& entry : entries) WL_TRY(tenants.add(entry, problem));
    return tenants;
}

Result<void> UnixTenants::add(const std::string& entry, std::string& problem) {
    const size_t equals = entry.find('=');
    const std::string who = entry.substr(0, equals);
    const bool is_named = equals != std::string::npos;
    const std::string tenant = is_named ? entry.substr(equals + 1) : "";
    if (is_named && !is_usable(tenant)) {
        problem = log::format("'{}' names no tenant (unix_tenants): 1 to {} printable characters", entry, k_most_tenant_bytes);
        return Error{Code::bad_argument, "no tenant is named"};
    }
    if (who == "self") {
        for (const uint32_t user : {static_cast<uint32_t>(geteuid()), 0u})
            if (user != k_overflow_user) m_tenants.try_emplace(user, is_named ? tenant : name_of_user(user));
        return {};
    }
    uint32_t user = 0;
    if (!parse_number(who, user) && !find_user(who, user)) {
        problem = log::format("there is no user '{}' (unix_tenants)", who);
        return Error{Code::not_configured, "there is no such user"};
    }
    m_tenants[user] = is_named ? tenant : name_of_user(user);
    return {};
}

Result<std::string> UnixTenants::tenant_of(const net::PeerUser& user, std::string& why) const {
    const auto found = m_tenants.find(user.user);
    if (found != m_tenants.end()) return found->second;
    why = m_tenants.empty()
              ? "it takes nobody without a certificate (its option unix_tenants names no user)"
              : log::format("user {} has no place here without a certificate (its option unix_tenants)", user.user);
    return Error{Code::denied, "the user is not let in"};
}

}  // namespace warpline::server
