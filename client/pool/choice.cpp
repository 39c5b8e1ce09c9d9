// What is waited for, and what is kept.
#include "client/pool/choice.h"

#include <algorithm>
#include <limits>
#include <random>

#include "client/pool/turn.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// After the first server that can take us, others have this long, or as long as it took: whichever is longer.
constexpr std::chrono::milliseconds k_settle{20};
/// … and never longer than this.
constexpr std::chrono::milliseconds k_longest_settle{250};
/// Servers whose machines are there, and which have not answered, have this long, once: they are busy, or hang.
constexpr std::chrono::milliseconds k_slow_settle{2'000};
/// Those who ask have the same deadline as we, and then say what was wrong.
constexpr std::chrono::milliseconds k_last_words{500};
/// How often others may be faster before any place will do.
constexpr unsigned k_most_lost_claims = 24;
/// For the answer to a claim. A server that does not answer in time is tried without.
constexpr std::chrono::milliseconds k_claim_timeout{5'000};

size_t random_below(size_t bound) {
    static thread_local std::minstd_rand random{std::random_device{}()};
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
}

}  // namespace

ServerChoice::ServerChoice(std::vector<PoolServer> servers, Policy policy, Identity identity,
                           std::chrono::milliseconds patience, Quarantine quarantine)
    : m_servers(std::move(servers)),
      m_identity(std::move(identity)),
      m_patience(patience),
      m_quarantine(quarantine),
      m_wants_load(policy == Policy::gpu_utilisation),
      m_candidates(policy, policy == Policy::round_robin ? next_turn() : 0, random_below),
      m_is_awaited(m_servers.size()) {
    std::vector<std::string> addresses;
    for (const PoolServer& server : m_servers) addresses.push_back(server.address);
    const std::vector<bool> rests = m_quarantine.resting(addresses);
    std::vector<size_t> well;
    for (size_t i = 0; i < m_servers.size(); ++i) (rests[i] ? m_resting : well).push_back(i);
    if (well.empty()) well.swap(m_resting);
    for (const size_t index : m_resting)
        WL_LOG(info, "pool", "{}: has failed lately, and is passed over while others answer", m_servers[index].address);
    begin(std::move(well));
}

/// Asks these, and nobody who was asked before.
void ServerChoice::begin(std::vector<size_t> servers) {
    m_asked = std::move(servers);
    m_began = Clock::now();
    m_deadline = m_began + m_patience;
    m_settled = m_was_patient = false;
    m_first_at.reset();
    std::fill(m_is_awaited.begin(), m_is_awaited.end(), false);
    std::vector<std::string> addresses;
    for (const size_t index : m_asked) {
        addresses.push_back(m_servers[index].address);
        m_is_awaited[index] = true;
    }
    m_poll.emplace(
        addresses, m_identity, m_deadline, m_wants_load,
        [quarantine = m_quarantine](const std::string& server, const Error& error) { quarantine.failed(server, error); });
}

/// True if a server that has not answered yet has a lower rank than those that have.
bool ServerChoice::better_may_come() const {
    const auto best = m_candidates.best();
    if (!best) return false;
    for (size_t i = 0; i < m_servers.size(); ++i) {
        if (m_is_awaited[i] && m_servers[i].rank < m_servers[*best].rank) return true;
    }
    return false;
}

/// How long answers are waited for, as things stand.
ServerChoice::Clock::time_point ServerChoice::heard_by() const {
    if (!m_candidates.best()) return m_deadline + k_last_words;
    // Whoever is to be taken only if others cannot waits for those, and not for one that may be dead.
    if (better_may_come()) return std::min(m_deadline, *m_first_at + k_slow_settle);
    const auto now = Clock::now();
    return std::min(m_deadline, now + std::clamp<Clock::duration>(now - m_began, k_settle, k_longest_settle));
}

/// Takes what has been answered, and what is answered soon.
void ServerChoice::hear() {
    const auto listen = [this] {
        auto until = heard_by();
        bool waits_for_better = better_may_come();
        while (auto answer = m_poll->next(until)) {
            const bool was_first = !m_candidates.best();
            add(std::move(*answer));
            // From the first one on, and from the last one on that was waited for.
            if ((was_first && m_candidates.best()) || (waits_for_better && !better_may_come())) until = heard_by();
            waits_for_better = better_may_come();
        }
    };
    listen();
    m_was_patient |= m_first_at && Clock::now() >= *m_first_at + k_slow_settle;
    if (!m_poll->some_are_slow() || m_was_patient) return;
    m_was_patient = true;
    const auto until = std::min(m_deadline, Clock::now() + k_slow_settle);
    while (m_poll->some_are_slow() && Clock::now() < until) {
        auto answer = m_poll->next(until);
        if (!answer) break;
        add(std::move(*answer));
    }
    while (auto answer = m_poll->next(Clock::now())) add(std::move(*answer));
}

void ServerChoice::add(Poll::Answer answer) {
    answer.index = m_asked[answer.index];
    m_is_awaited[answer.index] = false;
    if (!answer.connection) return refused(answer.error, answer.why);
    const std::string why_not = Candidates::why_not(answer.status);
    if (!why_not.empty()) return pass_over(answer.index, answer.status);
    const PoolServer& server = m_servers[answer.index];
    m_candidates.add(answer.index, server.weight, answer.status, answer.connection->round_trip_ms(), server.rank);
    if (!m_first_at) m_first_at = Clock::now();
    m_connections[answer.index] = std::move(answer.connection);
}

void ServerChoice::pass_over(size_t index, const protocol::ServerStatus& status) {
    refused(
        status.draining ? Error{Code::shutting_down, "the server is being drained"} : Error{Code::quota, "the server is full"},
        m_servers[index].address + ": " + Candidates::why_not(status));
}

void ServerChoice::refused(const Error& error, const std::string& why) {
    // A full one may have a place later, and so counts more than those that are not there.
    if (m_last_error.code != Code::quota) m_last_error = error;
    if (!m_reasons.empty()) m_reasons += "; ";
    m_reasons += why;
}

/// Has a place kept, if the server answers. False if it refuses: then it is no candidate any more, or one with more sessions
/// than before.
bool ServerChoice::claim(size_t index) {
    const uint32_t below = m_lost_claims < k_most_lost_claims ? m_candidates.claim_below(index, m_poll->all_heard())
                                                              : std::numeric_limits<uint32_t>::max();
    std::string why;
    const auto status = m_connections[index]->ask({{}, below, m_wants_load}, Clock::now() + k_claim_timeout, why);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - m_began).count();
    const std::string& server = m_servers[index].address;
    // Whether it is dead, or too busy to answer that, shows when we connect.
    if (!status.ok()) {
        WL_LOG(info, "pool", "{}: chosen without a place kept, after {} ms: {}", server, ms, why);
        return true;
    }
    if (status->claimed) {
        WL_LOG(debug, "pool", "{}: a place is kept (below {}, now {} sessions), after {} ms{}", server, below, status->sessions,
               ms, m_poll->all_heard() ? "" : "; not all have answered");
        return true;
    }
    ++m_lost_claims;
    WL_LOG(debug, "pool", "{}: others were faster (below {}, now {} sessions), after {} ms", server, below, status->sessions,
           ms);
    // Many choose it, perhaps because others are slow to answer: they get more time.
    m_settled = false;
    m_candidates.update(index, *status);
    if (!Candidates::why_not(*status).empty()) pass_over(index, *status);
    return false;
}

std::optional<std::string> ServerChoice::next() {
    auto server = next_of_asked();
    if (server || m_resting.empty()) return server;
    begin(std::exchange(m_resting, {}));
    return next_of_asked();
}

std::optional<std::string> ServerChoice::next_of_asked() {
    for (;;) {
        if (!std::exchange(m_settled, true)) hear();
        auto best = m_candidates.best();
        if (!best && m_poll->all_heard()) return std::nullopt;
        if (!best) {
            // Those that are slower than the settle time are better than none.
            hear();
            best = m_candidates.best();
            if (!best) return std::nullopt;
        }
        if (!claim(*best)) continue;
        m_candidates.drop(*best);
        m_connections.erase(*best);
        return m_servers[*best].address;
    }
}

}  // namespace warpline::client
