// What the entries of WARPLINE_SERVERS stand for: servers by address, and names of DNS that stand for several.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/net/resolve.h"

namespace warpline::client {

/// A server that can be asked and taken.
struct PoolServer {
    std::string address;  ///< as net::parse_endpoint() reads it; "pool.example[10.0.0.7]:14833" for one that DNS has given
    uint32_t weight = 1;
    uint32_t rank = 0;  ///< the lower ones first, whatever the policy says: priorities of SRV records
};

/// An entry of the list as users write it.
struct PoolEntry {
    enum class Kind : uint8_t {
        server,     ///< "host:port", or "host:port*3" for one that takes three times as many sessions
        addresses,  ///< "dns:name:port", "dns:name:port*3": each address of the name is a server
        services,   ///< "srv:_warpline._tcp.name": each SRV record is a server
    };
    Kind kind = Kind::server;
    std::string text;     ///< as it was written
    std::string name;     ///< server: the address; else what DNS is asked for
    uint16_t port = 0;    ///< addresses only
    uint32_t weight = 1;  ///< not of services
};
/// @errors bad_argument, with `why`
Result<PoolEntry> parse_pool_entry(std::string_view text, std::string& why);

/// What DNS said of an entry.
struct NameAnswer {
    Result<std::vector<PoolServer>> servers{Error{Code::internal}};  ///< @errors as net::Resolved
    std::chrono::seconds ttl{0};
    std::string why;
};

/// The servers that entries stand for. Answers of DNS are kept for as long as they say, and longer while no DNS server answers.
class Names {
public:
    using Clock = std::chrono::steady_clock;
    /// Begins to ask, and gives what waits for the answer until then.
    using Wait = std::function<NameAnswer(Clock::time_point until)>;
    using Ask = std::function<Wait(const PoolEntry&)>;

    explicit Names(Ask ask, std::function<Clock::time_point()> now = Clock::now)
        : m_ask(std::move(ask)), m_now(std::move(now)) {}

    struct Expanded {
        std::vector<PoolServer> servers;
        /// An entry that stands for nothing.
        struct Failure {
            std::string entry, why;
        };
        std::vector<Failure> failed;
        Error last_error{Code::ok};
        std::string reasons() const;  ///< all failures in one line
    };
    /// All names that are not known are asked for at the same time.
    /// @blocks until all have been answered, at most until the deadline @thread any
    Expanded expand(const std::vector<PoolEntry>& entries, Clock::time_point deadline) WL_EXCLUDES(m_mutex);

private:
    struct Kept {
        std::vector<PoolServer> servers;
        Error error{Code::ok};  // if there are none
        std::string why;
        Clock::time_point until;
    };
    void keep(const PoolEntry& entry, NameAnswer answer) WL_EXCLUDES(m_mutex);

    const Ask m_ask;
    const std::function<Clock::time_point()> m_now;
    Mutex m_mutex;
    std::map<std::string, Kept> m_kept WL_GUARDED_BY(m_mutex);  // by the text of the entry
};

/// Asks DNS.
Names::Ask ask_dns(const net::Dns& dns);

}  // namespace warpline::client
