// Who has to go when many are in TLS at a time (F1).
#include "server/control/reception.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::server::test {

namespace {

using namespace std::chrono_literals;

/// Guests that wait for a byte, or for the end of their connection. Lives as long as the process, as receptions do.
class Visit {
public:
    explicit Visit(size_t most) : m_reception(most) {}

    /// The other end of the connection.
    net::Socket come(const std::string& host, const std::string& name, size_t dropped = 0) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        EXPECT_EQ(m_reception.admit(net::Socket(ends[0]), host,
                                    [this, name](net::Socket socket, Reception::Guest& guest) { stay(name, socket, guest); }),
                  dropped);
        return net::Socket(ends[1]);
    }
    /// Waits until somebody is known, or has found the connection ended.
    std::string next() {
        const auto deadline = std::chrono::steady_clock::now() + 30s;
        MutexLock lock(m_mutex);
        while (m_news.empty() && m_changed.wait_until(m_mutex, deadline)) {
        }
        if (m_news.empty()) return "nobody";
        const std::string first = m_news.front();
        m_news.erase(m_news.begin());
        return first;
    }
    size_t size() { return m_reception.size(); }

private:
    void stay(const std::string& name, net::Socket& socket, Reception::Guest& guest) {
        std::byte byte[1];
        const bool spoke = socket.read_exact(byte, 30s).ok();
        guest.is_known();
        MutexLock lock(m_mutex);
        m_news.push_back(name + (spoke ? " is known" : " is dropped"));
        m_changed.notify_all();
    }

    Reception m_reception;
    Mutex m_mutex;
    ConditionVariable m_changed;
    std::vector<std::string> m_news WL_GUARDED_BY(m_mutex);
};

TEST(Reception, TheHostWithTheMostLosesItsOldest_F1) {
    static auto& visit = *new Visit(3);
    const net::Socket first = visit.come("many", "first");
    const net::Socket single = visit.come("one", "single");
    const net::Socket second = visit.come("many", "second");
    EXPECT_EQ(visit.size(), 3u);
    const net::Socket third = visit.come("many", "third", 1);
    EXPECT_EQ(visit.next(), "first is dropped");
    const net::Socket other = visit.come("another", "other", 1);
    EXPECT_EQ(visit.next(), "second is dropped");
    EXPECT_EQ(visit.size(), 3u);
    for (const net::Socket* socket : {&single, &third, &other}) ::shutdown(socket->fd(), SHUT_RDWR);
    for (int i = 0; i < 3; ++i) EXPECT_NE(visit.next(), "nobody");
    EXPECT_EQ(visit.size(), 0u);
}

TEST(Reception, OfHostsWithEquallyManyTheOldestGoes_F1) {
    static auto& visit = *new Visit(3);
    const net::Socket first = visit.come("c", "first");
    const net::Socket second = visit.come("b", "second");
    const net::Socket third = visit.come("a", "third");
    const net::Socket fourth = visit.come("d", "fourth", 1);
    EXPECT_EQ(visit.next(), "first is dropped");
    const net::Socket fifth = visit.come("e", "fifth", 1);
    EXPECT_EQ(visit.next(), "second is dropped");
    for (const net::Socket* socket : {&third, &fourth, &fifth}) ::shutdown(socket->fd(), SHUT_RDWR);
    for (int i = 0; i < 3; ++i) EXPECT_NE(visit.next(), "nobody");
}

TEST(Reception, WhoIsKnownTakesNobodysPlace_F1) {
    static auto& visit = *new Visit(1);
    net::Socket known = visit.come("here", "known");
    const std::byte byte[1] = {};
    ASSERT_TRUE(known.write_all(byte, 5s).ok());
    EXPECT_EQ(visit.next(), "known is known");
    const net::Socket next = visit.come("here", "next");
    EXPECT_EQ(visit.size(), 1u);
    ::shutdown(next.fd(), SHUT_RDWR);
    EXPECT_EQ(visit.next(), "next is dropped");
}

}  // namespace
}  // namespace warpline::server::test
