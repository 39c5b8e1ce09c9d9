// What a program is going to ask next, learnt from what it has asked, and answers to it that came along with earlier ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// What a thread of the program waits for an answer to.
struct Question {
    enum class Kind : uint8_t {
        none,
        read,            ///< device memory: address and bytes
        context,         ///< the end of all work of a context: its token
        default_stream,  ///< the end of the work of a context's legacy default stream: the context's token
        event,           ///< an event: its token
        elapsed,         ///< the time between two events: their tokens
    };
    Kind kind = Kind::none;
    uint64_t a = 0, b = 0;

    bool operator==(const Question&) const = default;
};

/// Learns which question follows upon which, and keeps the answers that were asked for ahead of the program, to be used if
/// nothing could have changed them: docs/session.md, "Reading ahead". It knows no connection.
///
/// @thread any
class Foresight {
public:
    /// Reads of more than this are not foreseen: they cost time, not round trips.
    static constexpr uint64_t k_max_read_bytes = 32 << 10;
    /// What is read along with one question, at most.
    static constexpr uint64_t k_max_ahead_bytes = 64 << 10;

    /// What is to be asked along with a question.
    struct Expected {
        std::vector<Question> reads;
        std::vector<Question> times;
        bool keeps_own = false;  ///< the same read is expected again

        bool empty() const { return reads.empty() && times.empty() && !keeps_own; }
    };
    /// A time that was asked for ahead, and which records of the events it belongs to.
    struct Time {
        Question question;
        uint64_t start_record = 0, end_record = 0;
        float milliseconds = 0;
    };
    struct Read {
        Question question;
        Bytes bytes;
    };
    struct Counts {
        uint64_t asked = 0;       ///< answers that came along with others
        uint64_t used = 0;        ///< of these, by the program
        uint64_t answers = 0;     ///< questions of the program that needed no round trip therefore
        uint64_t bytes = 0;       ///< of reads that came along
        uint64_t used_bytes = 0;  ///< of these, by the program; a byte may be used again
    };

    /// The answer to a read, if it is here and nothing was asked of the device since it was read. Else nothing is written.
    /// @param newest  the number of the session's newest call
    bool take_read(const Question& read, uint64_t newest, std::byte* out) WL_EXCLUDES(m_mutex);
    /// The same for a time; it stays true until one of the events is recorded again.
    std::optional<float> take_time(const Question& elapsed, uint64_t start_record, uint64_t end_record, uint64_t newest)
        WL_EXCLUDES(m_mutex);

    /// The program asks this now, and it has to be sent. What came ahead, and was not used, is given up.
    Expected expect(const Question& asked, uint64_t newest) WL_EXCLUDES(m_mutex);
    /// The question that expect() was told of has been answered by this call; and with it came these, its own answer among them
    /// if it is to be kept.
    void answered(const Question& asked, uint64_t number, std::vector<Read> reads, std::vector<Time> times)
        WL_EXCLUDES(m_mutex);

    Counts counts() const WL_EXCLUDES(m_mutex);

private:
    struct Hash {
        size_t operator()(const Question& question) const;
    };
    struct Successor {
        Question question;
        int trust = 0;
    };
    /// A successor is asked for ahead once it has come as often as this; what was not used has to earn it again.
    static constexpr int k_trusted = 2, k_most_trust = 4, k_disappointed = -2;
    static constexpr size_t k_max_known = 1024;
    static constexpr size_t k_max_chain = 8;

    struct HeldRead : Read {
        bool used = false, own = false;
    };
    struct HeldTime : Time {
        bool used = false, own = false;
    };

    void learn(const Question& asked, uint64_t newest) WL_REQUIRES(m_mutex);
    void give_up() WL_REQUIRES(m_mutex);
    void disappoint(const Question& unused) WL_REQUIRES(m_mutex);

    mutable Mutex m_mutex;
    std::unordered_map<Question, Successor, Hash> m_successors WL_GUARDED_BY(m_mutex);
    Question m_previous WL_GUARDED_BY(m_mutex);
    uint64_t m_number WL_GUARDED_BY(m_mutex) = 0;  // of the call that answered m_previous, and brought what is held
    uint64_t m_run WL_GUARDED_BY(m_mutex) = 0;     // reads, each of which began where the one before it ended
    std::vector<HeldRead> m_reads WL_GUARDED_BY(m_mutex);
    std::vector<HeldTime> m_times WL_GUARDED_BY(m_mutex);
    Counts m_counts WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
