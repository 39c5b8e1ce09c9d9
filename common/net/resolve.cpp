// Questions are put by threads of their own: the system's functions for it block for as long as they like.
#include "common/net/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <asio/ip/address.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>

#include "common/base/quiet_thread.h"
#include "common/base/scope_guard.h"
#include "common/net/dns_message.h"
#include "common/net/socket.h"

namespace warpline::net {

namespace {

constexpr Error k_no_name{Code::connect_refused, "there is no such name"};
constexpr Error k_no_server{Code::deadline, "no DNS server answers"};
constexpr uint16_t k_dns_port = 53;
/// Questions to a server: a second for each answer, as long as others wait for a datagram that was lost.
constexpr int k_tries = 4;

/// Puts a question by a thread of its own. `ask` fills in its words if there is no answer.
template <typename T, typename Ask>
Question<T> put(Ask ask) {
    auto answer = std::make_shared<std::promise<Resolved<T>>>();
    Question<T> question = answer->get_future();
    const auto started = start_quiet_thread([answer, ask = std::move(ask)] {
        std::string why;
        Result<T> value = ask(why);
        answer->set_value({std::move(value), std::move(why)});
    });
    if (!started.ok()) answer->set_value({started.error(), started.error().what});
    return question;
}

/// Has the resolver ask this server, and no other.
void use_server(struct __res_state& state, const std::string& address, uint16_t port) {
    // Servers with IPv6 stand beside the list, by pointers that the resolver frees.
    for (auto*& other : state._u._ext.nsaddrs) {
        std::free(other);
        other = nullptr;
    }
    state.nscount = 1;
    sockaddr_in& first = state.nsaddr_list[0];
    first = {};
    if (inet_pton(AF_INET, address.c_str(), &first.sin_addr) == 1) {
        first.sin_family = AF_INET;
        first.sin_port = htons(port);
        return;
    }
    auto* six = static_cast<sockaddr_in6*>(std::calloc(1, sizeof(sockaddr_in6)));
    if (six == nullptr) return;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    inet_pton(AF_INET6, address.c_str(), &six->sin6_addr);
    state._u._ext.nsaddrs[0] = six;
    state._u._ext.nscount = 1;
}

/// One question. @errors connect_refused: there is no such name, or it has nothing of this type
Result<Bytes> ask_dns(const std::string& server, uint16_t port, const std::string& name, int type, std::string& why) {
    struct __res_state state {};
    if (res_ninit(&state) != 0) {
        why = "the resolver cannot be set up";
        return Error{Code::io, "no resolver"};
    }
    const ScopeGuard close([&] { res_nclose(&state); });
    if (!server.empty()) {
        use_server(state, server, port);
        state.retrans = 1;
        state.retry = k_tries;
    }
    Bytes answer(NS_MAXMSG);
    const int length = res_nsearch(&state, name.c_str(), ns_c_in, type, reinterpret_cast<u_char*>(answer.data()),
                                   static_cast<int>(answer.size()));
    if (length >= 0) {
        answer.resize(std::min(static_cast<size_t>(length), answer.size()));
        return answer;
    }
    if (state.res_h_errno == HOST_NOT_FOUND || state.res_h_errno == NO_DATA) {
        why = state.res_h_errno == NO_DATA ? "DNS has no such record for this name" : "DNS knows no such name";
        return k_no_name;
    }
    why = "no DNS server gives an answer";
    return k_no_server;
}

Result<DnsAddresses> ask_addresses(const std::string& server, uint16_t port, const std::string& name, std::string& why) {
    DnsAddresses all;
    all.ttl = std::chrono::seconds::max();
    Error last = k_no_name;
    for (const int type : {ns_t_a, ns_t_aaaa}) {
        std::string reason;
        const auto message = ask_dns(server, port, name, type, reason);
        auto found = message.ok() ? read_addresses(*message) : Result<DnsAddresses>(message.error());
        if (!found.ok()) {
            last = found.error();
            why = reason.empty() ? found.error().what : reason;
            // One that does not answer this does not answer the other one either.
            if (last.code == Code::deadline) break;
            continue;
        }
        if (found->addresses.empty()) continue;
        all.addresses.insert(all.addresses.end(), found->addresses.begin(), found->addresses.end());
        all.ttl = std::min(all.ttl, found->ttl);
    }
    if (!all.addresses.empty()) return all;
    if (why.empty()) why = "DNS has no address for this name";
    return last;
}

Result<DnsServices> ask_services(const std::string& server, uint16_t port, const std::string& name, std::string& why) {
    const Bytes message = WL_TRY(ask_dns(server, port, name, ns_t_srv, why));
    auto found = read_services(message);
    if (!found.ok()) why = found.error().what;
    if (!found.ok()) return found;
    if (found->services.empty()) {
        why = "DNS says that there is no such service";
        return k_no_name;
    }
    if (server.empty()) return found;
    for (DnsService& service : found->services) {
        auto addresses = WL_TRY(ask_addresses(server, port, service.host, why));
        service.addresses = std::move(addresses.addresses);
        found->ttl = std::min(found->ttl, addresses.ttl);
    }
    why.clear();
    return found;
}

Result<std::vector<std::string>> ask_system(const std::string& host, std::string& why) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &list);
    if (failed != 0) {
        const bool no_name = failed == EAI_NONAME || failed == EAI_NODATA || failed == EAI_AGAIN;
        why = no_name ? "no such host name" : gai_strerror(failed);
        return k_no_name;
    }
    std::vector<std::string> addresses;
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
        char text[NI_MAXHOST];
        if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
            addresses.emplace_back(text);
    }
    freeaddrinfo(list);
    return addresses;
}

}  // namespace

Result<Dns> Dns::at(std::string_view server) {
    Dns dns;
    if (server.empty()) return dns;
    const Endpoint endpoint = WL_TRY(parse_endpoint(server, k_dns_port));
    if (!is_numeric_address(endpoint.host) || !endpoint.addresses.empty())
        return Error{Code::bad_argument, "a DNS server is named by its address"};
    dns.m_address = endpoint.host;
    dns.m_port = endpoint.port;
    return dns;
}

Question<DnsAddresses> Dns::addresses(std::string name) const {
    return put<DnsAddresses>([server = m_address, port = m_port, name = std::move(name)](std::string& why) {
        return ask_addresses(server, port, name, why);
    });
}

Question<DnsServices> Dns::services(std::string name) const {
    return put<DnsServices>([server = m_address, port = m_port, name = std::move(name)](std::string& why) {
        return ask_services(server, port, name, why);
    });
}

Result<std::vector<std::string>> addresses_of_host(const std::string& host, std::chrono::steady_clock::time_point deadline,
                                                   std::string& why) {
    if (is_numeric_address(host)) return std::vector<std::string>{host};
    auto question = put<std::vector<std::string>>([host](std::string& reason) { return ask_system(host, reason); });
    if (question.wait_until(deadline) != std::future_status::ready) {
        why = "the host name is not resolved in time (is the DNS server there?)";
        return k_no_server;
    }
    auto answer = question.get();
    why = std::move(answer.why);
    return std::move(answer.value);
}

bool is_numeric_address(const std::string& text) {
    asio::error_code error;
    asio::ip::make_address(text, error);
    return !error;
}

}  // namespace warpline::net
