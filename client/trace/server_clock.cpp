// Two bounds that approach each other with each message that was quick, and go apart with time.
#include "client/trace/server_clock.h"

namespace warpline::client::trace {

namespace {

/// How far the one is ahead of the other; nothing if that is more than any clock can be: who says so may be hostile.
std::optional<int64_t> ahead_of(int64_t there_ns, int64_t here_ns) {
    constexpr int64_t k_most = int64_t{1} << 61;
    int64_t ahead = 0;
    if (__builtin_sub_overflow(there_ns, here_ns, &ahead) || ahead > k_most || ahead < -k_most) return std::nullopt;
    return ahead;
}

}  // namespace

void ServerClock::came(int64_t there_ns, int64_t here_ns) {
    const auto ahead = ahead_of(there_ns, here_ns);
    if (!ahead) return;
    if (!m_least || *ahead >= m_least->ahead_ns - m_least->drift(here_ns)) m_least = {*ahead, here_ns};
    if (m_most && m_least->ahead_ns > m_most->ahead_ns + m_most->drift(here_ns)) m_most.reset();
}

void ServerClock::left(int64_t here_ns, int64_t there_ns) {
    const auto ahead = ahead_of(there_ns, here_ns);
    if (!ahead) return;
    if (!m_most || *ahead <= m_most->ahead_ns + m_most->drift(here_ns)) m_most = {*ahead, here_ns};
    // Clocks that drift faster, or were set: what is newest is right.
    if (m_least && m_most->ahead_ns < m_least->ahead_ns - m_least->drift(here_ns)) m_least.reset();
}

std::optional<ServerClock::Estimate> ServerClock::at(int64_t here_ns) const {
    if (!m_least || !m_most) return std::nullopt;
    const int64_t least = m_least->ahead_ns - m_least->drift(here_ns), most = m_most->ahead_ns + m_most->drift(here_ns);
    return Estimate{least + (most - least) / 2, (most - least + 1) / 2};
}

}  // namespace warpline::client::trace
