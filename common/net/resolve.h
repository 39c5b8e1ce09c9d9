// Asking for what names stand for: addresses and services, each question with an end.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace warpline::net {

/// The answer to a question about a name. @errors of `value`: connect_refused (there is no such name), deadline (no DNS server
/// answers), alloc_failed, each with `why`: a few words for the user
template <typename T>
struct Resolved {
    Result<T> value;
    std::string why;
};

/// A question under way, asked by a thread that ends by itself. Nobody has to wait for it: let it go after any deadline.
template <typename T>
using Question = std::future<Resolved<T>>;

struct DnsAddresses {
    std::vector<std::string> addresses;  ///< numeric; at least one, none twice
    std::chrono::seconds ttl{0};         ///< how long this is true
};

/// A record of a service (RFC 2782).
struct DnsService {
    std::string host;
    uint16_t port = 0;
    uint16_t priority = 0;               ///< the lower, the sooner it is tried
    uint16_t weight = 0;                 ///< its share among those of its priority
    std::vector<std::string> addresses;  ///< of the host; none: the system finds them
};
struct DnsServices {
    std::vector<DnsService> services;  ///< at least one, by priority
    std::chrono::seconds ttl{0};
};

/// Which DNS server is asked: that of /etc/resolv.conf, or one by its address ("127.0.0.1:8600", "[::1]:53"; "": the former).
class Dns {
public:
    /// @errors bad_argument: no numeric address
    static Result<Dns> at(std::string_view server);

    /// The addresses (A, AAAA) that DNS has for a name. What else the system knows, such as /etc/hosts, is not asked.
    /// @blocks no @thread any
    Question<DnsAddresses> addresses(std::string name) const;
    /// The services (SRV) of a name. Where a DNS server was named, their hosts' addresses are asked of it, too.
    /// @blocks no @thread any
    Question<DnsServices> services(std::string name) const;

private:
    std::string m_address;  // numeric; empty: resolv.conf
    uint16_t m_port = 0;
};

/// The addresses that this system finds for a host, as getaddrinfo(3), which has no deadline of its own; numeric ones at once.
/// @blocks until the deadline @errors connect_refused, deadline, alloc_failed, with `why`
Result<std::vector<std::string>> addresses_of_host(const std::string& host, std::chrono::steady_clock::time_point deadline,
                                                   std::string& why);

/// True for "10.0.0.7", "::1", "fe80::1%eth0".
bool is_numeric_address(const std::string& text);

}  // namespace warpline::net
