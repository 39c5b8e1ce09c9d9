// Calls that are like earlier ones, in few bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "protocol/codec/buffer.h"

namespace warpline::protocol {

/// Earlier calls of a session, which later ones are said to be like. Both sides remember the same ones, because both remember
/// in the order of the session's calls, whatever connections they travel over. What is remembered is bounded, and forgotten all
/// at once.
class RememberedCalls {
public:
    static constexpr uint16_t k_most_calls = 2048;
    static constexpr size_t k_most_call_words = 1024;  ///< of one call
    static constexpr size_t k_most_words = 128 * 1024;

    explicit RememberedCalls(uint16_t most_calls = k_most_calls) : m_most_calls(most_calls) {}

    size_t size() const { return m_slots.size(); }
    /// True if there is room for another call.
    bool has_room(size_t words) const {
        return m_slots.size() < m_most_calls && words <= k_most_call_words && m_used_words + words <= k_most_words;
    }
    /// Remembers a call under the next number. False if there is no memory. There must be room.
    bool keep(BytesView words);
    void forget();
    /// The words of a call; its number must be one that is in use. Valid until keep().
    MutableBytesView words(size_t number) {
        return m_words.mutable_view().subspan(m_slots[number].first * sizeof(uint64_t),
                                              m_slots[number].words * sizeof(uint64_t));
    }

private:
    struct Slot {
        uint32_t first;
        uint32_t words;
    };
    const uint16_t m_most_calls;
    std::vector<Slot> m_slots;
    Buffer m_words;
    size_t m_used_words = 0;
};

/// Writes calls, each as what is different from an earlier one, if there was one like it (docs/wire-format.md#compact-calls).
/// @thread  one at a time, in the order of the calls
class CompactWriter {
public:
    explicit CompactWriter(uint16_t most_calls);

    /// Room that write() may need for a message of this size.
    static constexpr size_t room(size_t message_bytes) { return message_bytes + message_bytes / 4 + 16; }
    /// @param message  with its framing
    /// @param key      calls with the same key and size are like one another
    /// @param out      room() bytes
    /// @return         the bytes that were written
    size_t write(BytesView message, uint64_t key, std::byte* out);

    /// Calls that were written as what is different.
    uint64_t alike() const { return m_alike; }

private:
    /// Where the call with this key is, or would be.
    size_t find(uint64_t key, size_t words) const;
    size_t write_whole(BytesView message, uint64_t key, size_t place, std::byte* out);

    struct Known {
        uint64_t key = 0;
        uint32_t words = 0;  ///< 0: there is none
        uint32_t number = 0;
    };
    static constexpr size_t k_places = size_t{RememberedCalls::k_most_calls} * 2;  // so that one is always free

    RememberedCalls m_remembered;
    std::vector<Known> m_known;  // by hash, with linear probing
    uint64_t m_alike = 0;
};

/// Makes messages of what a CompactWriter wrote. Everything is checked: what is read, referred to and written.
/// @thread  one at a time, in the order of the calls
class CompactReader {
public:
    explicit CompactReader(uint16_t most_calls = RememberedCalls::k_most_calls) : m_remembered(most_calls) {}

    /// Expands the calls of one batch.
    ///
    /// @param items  the calls, and less than 8 bytes of zeros behind them
    /// @param out    what they must fill exactly
    /// @errors       malformed: the session cannot go on then. alloc_failed
    Result<void> expand(BytesView items, uint32_t count, MutableBytesView out);

private:
    Result<void> read_call(BytesView& items, MutableBytesView& out);
    Result<void> read_whole(BytesView& items, MutableBytesView& out, bool keep);
    Result<void> read_alike(BytesView& items, MutableBytesView& out, size_t number);

    RememberedCalls m_remembered;
};

}  // namespace warpline::protocol
