#pragma once

// Which calls may run while an earlier one is still waiting inside of the driver (docs/threading.md, "Calls that are
// overtaken").

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "server/session/executor.h"

namespace warpline::server {

/// What a call has to do with, as far as the order of calls goes. Filled by generated code from the API description.
class Footprint {
public:
    struct Touch {
        uint64_t key = 0;
        bool after_users = false;  ///< waits for calls that use the key, not only for the one that last gave it its meaning
        bool provides = false;     ///< later calls that touch the key wait for this one
        bool uses = false;         ///< a later call that changes the key waits for this one
    };

    /// The call gives the object its meaning, another meaning, or its end.
    void make(uint64_t token) { touches.push_back({token, true, true, false}); }
    /// The call needs the object as earlier calls have made it.
    void use(uint64_t token) {
        if (token != 0) touches.push_back({token, false, false, true});
    }
    /// The call works in this stream (a client's token): Session::place_streams() says what that means.
    void work_in(uint64_t stream) { streams.push_back(stream); }

    std::vector<Touch> touches;
    std::vector<uint64_t> streams;
    bool after_all = false;     ///< waits for every earlier call
    bool before_all = false;    ///< every later call waits for it
    bool only_asks = false;     ///< whether work is done: it neither works in the stream nor needs memory
    bool client_waits = false;  ///< a thread of the program waits for the reply: what comes after it there has not been sent
    /// Brings pages to the program or back, for a function that a stream has called, perhaps: whatever waits for that must not
    /// hold it up. It comes behind what maps memory alone.
    bool is_of_pages = false;
    bool maps_memory = false;    ///< gives addresses memory: work in streams waits for it, and it waits for what unmaps
    bool unmaps_memory = false;  ///< takes memory from addresses, which may be mapped again
};

/// The calls of a session that are not where the session's order has arrived: those that were overtaken while they waited
/// inside of the driver, and those behind them that need what these make, or come after them in a stream. Everything else goes
/// on.
///
/// A session without such calls pays one atomic read per call.
///
/// @thread  any
class CallOrder {
public:
    /// True if anything is remembered: calls have to ask hold() then.
    bool any() const { return m_any.load(std::memory_order_acquire); }

    /// A call that is being executed has been overtaken: later calls come to hold(). @return its number, for ended()
    uint64_t overtaken(const Footprint& footprint) WL_EXCLUDES(m_mutex);

    /// A call whose turn has come. False: nothing keeps it from running. Else it is kept, with `work`, until what it waits for
    /// has ended. @param number  receives its number, for ended(), before anybody can have the work again
    bool hold(const Footprint& footprint, const std::shared_ptr<OrderedWork>& work, uint64_t& number) WL_EXCLUDES(m_mutex);

    /// True if something of what the call asks about has not even begun, or is overtaken: then the answer is known. False if
    /// what comes before it may change what it asks about; it has to take its turn then.
    bool is_unfinished(const Footprint& footprint) WL_EXCLUDES(m_mutex);

    /// A call has ended. @return the work that nothing keeps any longer, in its order
    std::vector<std::shared_ptr<OrderedWork>> ended(uint64_t number) WL_EXCLUDES(m_mutex);

    /// Drops what is kept: the session ends.
    void clear() WL_EXCLUDES(m_mutex);

private:
    struct Node {
        std::shared_ptr<OrderedWork> work;  // of a call that is kept
        size_t waits_for = 0;
        bool client_waits = false;
        std::vector<uint64_t> followers;
    };
    struct Key {
        uint64_t provider = 0;
        std::vector<uint64_t> users;
        size_t sweep_at = 64;
    };

    std::vector<uint64_t> what_holds(const Footprint& footprint) WL_REQUIRES(m_mutex);
    void enter(uint64_t number, const Footprint& footprint) WL_REQUIRES(m_mutex);
    void forget_ended(std::vector<uint64_t>& numbers) WL_REQUIRES(m_mutex);

    std::atomic<bool> m_any{false};  // released with the first node, acquired by who leads
    Mutex m_mutex;
    uint64_t m_last WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_barrier WL_GUARDED_BY(m_mutex) = 0;  // the last call before_all
    std::unordered_map<uint64_t, Node> m_nodes WL_GUARDED_BY(m_mutex);
    std::unordered_map<uint64_t, Key> m_keys WL_GUARDED_BY(m_mutex);
};

// Keys that are not tokens: tokens leave the uppermost byte zero.
constexpr uint64_t k_mapping_key = uint64_t{1} << 56;
constexpr uint64_t k_unmapping_key = uint64_t{2} << 56;
/// What a blocking stream and the legacy default stream of its context have to do with one another.
constexpr uint64_t legacy_key(uint64_t context) { return uint64_t{3} << 56 | context; }
/// A thread's own default stream. Two that share a number only wait for one another without need.
constexpr uint64_t thread_stream_key(uint32_t thread, uint64_t context) {
    return uint64_t{4} << 56 | ((context * 0x9E3779B97F4A7C15ull + thread) >> 8);
}

}  // namespace warpline::server
