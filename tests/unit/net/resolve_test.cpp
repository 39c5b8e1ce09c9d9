// What DNS says, and what becomes of a question that nobody answers (C4).
#include "common/net/resolve.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/net/dns_message.h"
#include "common/net/socket.h"

namespace warpline::net {
namespace {

using namespace std::chrono_literals;

std::string number(uint64_t value, int bytes) {
    std::string text;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
    return text;
}

/// "gpus.example" as labels.
std::string name(std::string_view text) {
    std::string labels;
    while (!text.empty()) {
        const size_t dot = std::min(text.find('.'), text.size());
        labels += number(static_cast<uint32_t>(dot), 1) + std::string(text.substr(0, dot));
        text.remove_prefix(std::min(dot + 1, text.size()));
    }
    return labels + '\0';
}

constexpr int k_a = 1, k_cname = 5, k_aaaa = 28, k_srv = 33;

std::string record(int type, uint32_t ttl_s, const std::string& data) {
    return name("x.example") + number(static_cast<uint32_t>(type), 2) + number(1, 2) + number(ttl_s, 4) +
           number(static_cast<uint32_t>(data.size()), 2) + data;
}

std::string srv(uint32_t priority, uint32_t weight, uint32_t port, std::string_view host, uint32_t ttl_s = 60) {
    return record(k_srv, ttl_s, number(priority, 2) + number(weight, 2) + number(port, 2) + name(host));
}

/// An answer with these records.
Bytes message(const std::vector<std::string>& records) {
    std::string text = number(7, 2) + number(0x8180, 2) + number(0, 2) + number(static_cast<uint32_t>(records.size()), 2) +
                       number(0, 2) + number(0, 2);
    for (const std::string& each : records) text += each;
    const auto bytes = as_bytes(text.data(), text.size());
    return Bytes(bytes.begin(), bytes.end());
}

TEST(DnsMessage, AddressesOfBothKindsAndTheLeastTimeToLive_C4) {
    const auto found =
        read_addresses(message({record(k_cname, 20, name("y.example")), record(k_a, 300, number(0x0a000007, 4)),
                                record(k_a, 300, number(0x0a000007, 4)), record(k_aaaa, 300, std::string(15, '\0') + '\1')}));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->addresses, (std::vector<std::string>{"10.0.0.7", "::1"}));
    EXPECT_EQ(found->ttl, 20s);
}

TEST(DnsMessage, ServicesByPriority_C4) {
    const auto found = read_services(
        message({srv(20, 1, 14833, "far.example"), srv(10, 3, 9000, "near.example", 5), srv(10, 0, 14833, "also.example")}));
    ASSERT_TRUE(found.ok());
    ASSERT_EQ(found->services.size(), 3u);
    EXPECT_EQ(found->services[0].host, "near.example");
    EXPECT_EQ(found->services[0].port, 9000);
    EXPECT_EQ(found->services[0].weight, 3);
    EXPECT_EQ(found->services[1].host, "also.example");
    EXPECT_EQ(found->services[2].priority, 20);
    EXPECT_EQ(found->ttl, 5s);
}

TEST(DnsMessage, AServiceThatIsNotToBeHad_C4) {
    const auto found = read_services(message({srv(0, 0, 0, "")}));
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found->services.empty());
}

TEST(DnsMessage, TimesToLiveHaveBounds_C4) {
    EXPECT_EQ(read_addresses(message({record(k_a, 0x7fffffff, number(1, 4))}))->ttl, 24h);
    EXPECT_EQ(read_addresses(message({record(k_a, 0xffffffff, number(1, 4))}))->ttl, 0s);
}

TEST(DnsMessage, WhatIsNoMessageIsRefused_F1) {
    const Bytes whole = message({srv(10, 3, 9000, "near.example")});
    for (size_t length = 0; length < whole.size(); ++length) {
        EXPECT_EQ(read_services(BytesView(whole).first(length)).error().code, Code::malformed) << length;
    }
    EXPECT_EQ(read_addresses(message({record(k_a, 60, "abc")})).error().code, Code::malformed);
    EXPECT_EQ(read_services(message({record(k_srv, 60, "abc")})).error().code, Code::malformed);
    // A name that points beyond the message.
    EXPECT_EQ(read_services(message({record(k_srv, 60, number(0, 6) + "\xc3\xff")})).error().code, Code::malformed);
}

TEST(DnsMessage, MoreRecordsThanAPoolHasAreLeftOut_F1) {
    std::vector<std::string> records;
    for (uint32_t i = 0; i < 500; ++i) records.push_back(record(k_a, 60, number(i, 4)));
    EXPECT_EQ(read_addresses(message(records))->addresses.size(), 128u);
}

TEST(Dns, IsNamedByItsAddress_C4) {
    for (const char* good : {"", "10.0.0.53", "127.0.0.1:8600", "[::1]:53", "::1"}) EXPECT_TRUE(Dns::at(good).ok()) << good;
    for (const char* bad : {"dns.example", "dns[10.0.0.1]:53", "10.0.0.1:"}) {
        EXPECT_EQ(Dns::at(bad).error().code, Code::bad_argument) << bad;
    }
}

/// A socket to which a question comes, and from which no answer does.
TEST(Dns, AQuestionThatNobodyAnswersIsLetGo_C4) {
    for (const bool six : {false, true}) {
        Socket silent(::socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        sockaddr_storage address{};
        address.ss_family = six ? AF_INET6 : AF_INET;
        if (six) reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
        if (!six) reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        if (::bind(silent.fd(), reinterpret_cast<sockaddr*>(&address), length) != 0 && six) GTEST_SKIP() << "no IPv6 here";
        ASSERT_EQ(::getsockname(silent.fd(), reinterpret_cast<sockaddr*>(&address), &length), 0);
        const uint16_t port = ntohs(six ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
        const auto dns = Dns::at((six ? "[::1]:" : "127.0.0.1:") + std::to_string(port));
        ASSERT_TRUE(dns.ok());
        auto question = dns->addresses("gpus.example");
        char asked[512];
        ASSERT_GT(::recv(silent.fd(), asked, sizeof asked, 0), 12) << "the question does not come to the server that was named";
        EXPECT_EQ(question.wait_for(10ms), std::future_status::timeout);
    }
}

}  // namespace
}  // namespace warpline::net
