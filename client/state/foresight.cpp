// Successors that are trusted when they have come often, reads that go on, and what is held until something changes.
#include "client/state/foresight.h"

#include <algorithm>
#include <cstring>

namespace warpline::client {

namespace {

bool follows_upon(const Question& read, const Question& previous) {
    return read.kind == Question::Kind::read && previous.kind == Question::Kind::read && read.a == previous.a + previous.b;
}

/// True if the bytes that `read` asks for are among those of `held`.
bool is_within(const Question& read, const Question& held) {
    return read.a >= held.a && read.b <= held.b && read.a - held.a <= held.b - read.b;
}

}  // namespace

size_t Foresight::Hash::operator()(const Question& question) const {
    uint64_t hash = static_cast<uint64_t>(question.kind);
    for (const uint64_t word : {question.a, question.b}) hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 32);
}

bool Foresight::take_read(const Question& read, uint64_t newest, std::byte* out) {
    MutexLock lock(m_mutex);
    if (newest != m_number) return false;
    const auto held =
        std::find_if(m_reads.begin(), m_reads.end(), [&](const HeldRead& one) { return is_within(read, one.question); });
    if (held == m_reads.end()) return false;
    std::memcpy(out, held->bytes.data() + (read.a - held->question.a), read.b);
    if (!held->own) {
        m_counts.used += held->used ? 0 : 1;
        m_counts.used_bytes += read.b;
    }
    held->used = true;
    ++m_counts.answers;
    learn(read, newest);
    return true;
}

std::optional<float> Foresight::take_time(const Question& elapsed, uint64_t start_record, uint64_t end_record,
                                          uint64_t newest) {
    MutexLock lock(m_mutex);
    const auto held = std::find_if(m_times.begin(), m_times.end(), [&](const HeldTime& one) {
        return one.question == elapsed && one.start_record == start_record && one.end_record == end_record;
    });
    if (held == m_times.end()) return std::nullopt;
    m_counts.used += held->used || held->own ? 0 : 1;
    held->used = true;
    ++m_counts.answers;
    learn(elapsed, newest);
    return held->milliseconds;
}

Foresight::Expected Foresight::expect(const Question& asked, uint64_t newest) {
    MutexLock lock(m_mutex);
    give_up();
    learn(asked, newest);
    Expected expected;
    uint64_t bytes = asked.kind == Question::Kind::read ? asked.b : 0;
    constexpr uint64_t k_run = 2;
    if (m_run >= k_run && bytes < k_max_ahead_bytes) {
        const uint64_t ahead = std::min(asked.b * m_run, k_max_ahead_bytes - bytes);
        expected.reads.push_back({Question::Kind::read, asked.a + asked.b, ahead});
        return expected;
    }
    Question last = asked;
    for (size_t i = 0; i < k_max_chain; ++i) {
        const auto found = m_successors.find(last);
        if (found == m_successors.end() || found->second.trust < k_trusted) break;
        last = found->second.question;
        if (last == asked) {
            expected.keeps_own = asked.kind == Question::Kind::read;
            break;
        }
        auto& same_kind = last.kind == Question::Kind::read ? expected.reads : expected.times;
        if (std::find(same_kind.begin(), same_kind.end(), last) != same_kind.end()) break;
        if (last.kind == Question::Kind::read && (bytes += last.b) > k_max_ahead_bytes) break;
        same_kind.push_back(last);
    }
    return expected;
}

void Foresight::answered(const Question& asked, uint64_t number, std::vector<Read> reads, std::vector<Time> times) {
    MutexLock lock(m_mutex);
    m_previous = asked;
    m_number = number;
    for (Read& read : reads) {
        const bool own = read.question == asked;
        if (!own) {
            ++m_counts.asked;
            m_counts.bytes += read.question.b;
        }
        m_reads.push_back({std::move(read), false, own});
    }
    for (const Time& time : times) {
        const bool own = time.question == asked;
        m_counts.asked += own ? 0 : 1;
        m_times.push_back({time, false, own});
    }
}

Foresight::Counts Foresight::counts() const {
    MutexLock lock(m_mutex);
    return m_counts;
}

/// The question that came after the previous one, with nothing between, is expected to do so again.
void Foresight::learn(const Question& asked, uint64_t newest) {
    const bool comes_next = newest == m_number && m_previous.kind != Question::Kind::none;
    m_run = comes_next && follows_upon(asked, m_previous) ? m_run + 1 : 0;
    const bool may_come_ahead = asked.kind == Question::Kind::read || asked.kind == Question::Kind::elapsed;
    constexpr uint64_t k_no_news = 4;  // a read that goes on is foreseen as such
    if (comes_next && may_come_ahead && m_run < k_no_news) {
        if (m_successors.size() >= k_max_known && !m_successors.contains(m_previous)) m_successors.clear();
        Successor& successor = m_successors[m_previous];
        if (successor.question == asked) {
            successor.trust = std::min(successor.trust + 1, k_most_trust);
        } else if (--successor.trust <= 0) {
            successor = {asked, 1};
        }
    }
    m_previous = asked;
}

void Foresight::give_up() {
    for (const HeldRead& read : m_reads)
        if (!read.used) disappoint(read.question);
    for (const HeldTime& time : m_times)
        if (!time.used && !time.own) disappoint(time.question);
    m_reads.clear();
    m_times.clear();
}

void Foresight::disappoint(const Question& unused) {
    for (auto& [question, successor] : m_successors)
        if (successor.question == unused) successor.trust = k_disappointed;
}

}  // namespace warpline::client
