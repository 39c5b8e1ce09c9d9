// How a program has set up a kernel, as far as what a driver says of it follows from that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "client/state/answers.h"
#include "client/state/attributes_ahead.h"
#include "common/base/bytes.h"

namespace warpline::client {

/// How a kernel is set up on one device, by what was set last. An answer belongs to what was set when it was asked for, so that
/// it is there again when the same is set again. A call that sets something has no reply: if the driver may have refused one,
/// nobody knows what holds, and what is set up from then on is another setup than any before.
///
/// @thread  one at a time: under the mutex of the function
class FunctionSetup {
public:
    // What is set beside the function's attributes, which have their own numbers.
    static constexpr int k_cache_config = -1, k_shared_config = -2;

    /// The setup at the time of a question.
    struct Moment {
        Bytes key;                ///< the same for the same setup
        uint64_t begun = 0;       ///< calls that set something, until then
        bool is_between = false;  ///< none of them was on its way
    };
    /// @param failures  Session::failures() now
    Moment now(uint64_t failures) {
        drop_if_refused(failures);
        Moment moment{question_of(cuda::CallId{}, m_generation), m_begun, m_begun == m_sent};
        for (const auto& [what, set] : m_set) {
            const Bytes part = question_of(cuda::CallId{}, what, set.value);
            moment.key.insert(moment.key.end(), part.begin(), part.end());
        }
        return moment;
    }
    /// A question of this moment has been answered. True if the answer is about the moment's setup, and no other.
    bool holds(const Moment& moment, uint64_t failures) {
        if (!is_same(moment)) return false;
        // Refusals are told before later replies.
        if (drop_if_refused(failures)) return false;
        m_is_unconfirmed = false;
        return true;
    }
    /// True if nothing was set since the moment, nor was it on its way then.
    bool is_same(const Moment& moment) const { return moment.is_between && m_begun == moment.begun; }

    /// What is known of the function is forgotten if something may have been refused; returns true then.
    bool drop_if_refused(uint64_t failures) {
        if (!m_is_unconfirmed || failures == m_failures) return false;
        drop();
        return true;
    }

    std::optional<FunctionAttributes> attributes;  ///< as the driver told, or as they read back

    /// A call that sets something is about to be sent; sent() or not_sent() follows.
    void begin(uint64_t failures) {
        ++m_begun;
        if (!std::exchange(m_is_unconfirmed, true)) m_failures = failures;
    }
    /// @param number       of the call: threads may come here in another order than their calls
    /// @param is_recalled  an answer from when the same was set before holds again
    /// @return false if another thread has set the same thing later
    bool sent(int what, int value, uint64_t number, bool is_recalled) {
        ++m_sent;
        const auto [set, is_first] = m_set.try_emplace(what, Set{value, number});
        if (!is_first && number < set->second.number) return false;
        const bool changes = is_first || set->second.value != value;
        set->second = {value, number};
        if (changes && !is_recalled) ++m_generation;
        return true;
    }
    void not_sent() {
        ++m_sent;
        drop();
    }

private:
    struct Set {
        int value = 0;
        uint64_t number = 0;
    };
    void drop() {
        m_set.clear();
        attributes.reset();
        ++m_generation;
        m_is_unconfirmed = false;
    }

    std::map<int, Set> m_set;
    uint64_t m_generation = 0;
    uint64_t m_begun = 0, m_sent = 0;
    bool m_is_unconfirmed = false;  // something was sent, and no reply has come to a later question
    uint64_t m_failures = 0;        // when the first such call was sent
};

}  // namespace warpline::client
