// Reading with the parser of glibc's libresolv, which checks all lengths.
#include "common/net/dns_message.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>

#include <algorithm>

namespace warpline::net {

namespace {

/// More servers than a pool has, and fewer than a malicious answer can name.
constexpr size_t k_most_records = 128;
/// Whoever says that something is true for a year is asked every day.
constexpr uint32_t k_longest_ttl_s = 86'400;

constexpr Error k_not_dns{Code::malformed, "not an answer of DNS"};

/// Calls `take` with each record of the answer, until it returns false, and gives the least time to live.
template <typename Take>
Result<std::chrono::seconds> for_each_record(BytesView message, const Take& take) {
    ns_msg parsed;
    if (ns_initparse(reinterpret_cast<const u_char*>(message.data()), static_cast<int>(message.size()), &parsed) != 0)
        return k_not_dns;
    uint32_t ttl_s = k_longest_ttl_s;
    for (int i = 0; i < ns_msg_count(parsed, ns_s_an); ++i) {
        ns_rr record;
        if (ns_parserr(&parsed, ns_s_an, i, &record) != 0) return k_not_dns;
        if (ns_rr_class(record) != ns_c_in) continue;
        // RFC 2181: one with the highest bit set counts as none.
        const uint32_t said = ns_rr_ttl(record);
        ttl_s = std::min(ttl_s, said > INT32_MAX ? 0 : said);
        WL_TRY(take(parsed, record));
    }
    return std::chrono::seconds(ttl_s);
}

Result<DnsService> read_service(const ns_msg& message, const ns_rr& record) {
    constexpr size_t k_fixed = 6;
    if (ns_rr_rdlen(record) <= k_fixed) return k_not_dns;
    const u_char* data = ns_rr_rdata(record);
    char host[NS_MAXDNAME];
    if (ns_name_uncompress(ns_msg_base(message), ns_msg_end(message), data + k_fixed, host, sizeof host) < 0) return k_not_dns;
    DnsService service;
    service.priority = static_cast<uint16_t>(ns_get16(data));
    service.weight = static_cast<uint16_t>(ns_get16(data + 2));
    service.port = static_cast<uint16_t>(ns_get16(data + 4));
    service.host = host;
    return service;
}

}  // namespace

Result<DnsAddresses> read_addresses(BytesView message) {
    DnsAddresses found;
    found.ttl = WL_TRY(for_each_record(message, [&](const ns_msg&, const ns_rr& record) -> Result<void> {
        const bool is_v4 = ns_rr_type(record) == ns_t_a;
        if (!is_v4 && ns_rr_type(record) != ns_t_aaaa) return {};  // an alias on the way
        if (ns_rr_rdlen(record) != (is_v4 ? 4 : 16)) return k_not_dns;
        char text[INET6_ADDRSTRLEN];
        inet_ntop(is_v4 ? AF_INET : AF_INET6, ns_rr_rdata(record), text, sizeof text);
        if (std::find(found.addresses.begin(), found.addresses.end(), text) == found.addresses.end() &&
            found.addresses.size() < k_most_records)
            found.addresses.emplace_back(text);
        return {};
    }));
    return found;
}

Result<DnsServices> read_services(BytesView message) {
    DnsServices found;
    found.ttl = WL_TRY(for_each_record(message, [&](const ns_msg& parsed, const ns_rr& record) -> Result<void> {
        if (ns_rr_type(record) != ns_t_srv) return {};
        DnsService service = WL_TRY(read_service(parsed, record));
        // "." is how a service says that it is not to be had.
        const bool is_one = !service.host.empty() && service.host != "." && service.port != 0;
        if (is_one && found.services.size() < k_most_records) found.services.push_back(std::move(service));
        return {};
    }));
    std::stable_sort(found.services.begin(), found.services.end(),
                     [](const DnsService& a, const DnsService& b) { return a.priority < b.priority; });
    return found;
}

}  // namespace warpline::net
