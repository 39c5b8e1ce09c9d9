// What is different between calls, written and read.
#include "protocol/codec/compact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "protocol/codec/frame.h"
#include "protocol/codec/message.h"

namespace warpline::protocol {

namespace {

// How a call begins: docs/wire-format.md#compact-calls.
constexpr size_t k_near_numbers = 0xE0;  // below: like the call with this number
constexpr uint8_t k_far = 0xE0;          // and 4 bits, and a byte more
constexpr uint8_t k_keep = 0xFC;
constexpr uint8_t k_whole = 0xFD;
constexpr uint8_t k_forget = 0xFE;

// What follows of a call that is like another one.
constexpr uint8_t k_most_gap = 0x7D;
constexpr uint8_t k_skip = 0x7E;  // so many words are the same
constexpr uint8_t k_end = 0x7F;
constexpr uint8_t k_run = 0x80;
constexpr size_t k_most_run = 255;
// A word of which at least so many bytes are different travels as a whole: the others would cost as much.
constexpr int k_whole_word_bytes = 6;
constexpr auto k_travels_whole = [] {
    std::array<bool, 256> whole{};
    for (unsigned bytes = 0; bytes < whole.size(); ++bytes) whole[bytes] = std::popcount(bytes) >= k_whole_word_bytes;
    return whole;
}();

constexpr size_t k_word = sizeof(uint64_t);

uint64_t word_at(const std::byte* words, size_t index) {
    uint64_t word;
    std::memcpy(&word, words + index * k_word, k_word);
    return word;
}

/// A bit for each byte that is not 0.
uint8_t bytes_set(uint64_t word) {
    constexpr uint64_t k_low = 0x7F7F7F7F7F7F7F7F;
    const uint64_t high = (((word & k_low) + k_low) | word) & ~k_low;
    return static_cast<uint8_t>(((high >> 7) * 0x0102040810204080) >> 56);
}

/// The first word from this one on that is not the same; `words` if all are.
size_t next_changed(const std::byte* was, const std::byte* is, size_t from, size_t words) {
    const auto changes = [&](size_t i) { return word_at(was, i) ^ word_at(is, i); };
    // Few words of a call change: four of them at once cost one branch.
    for (; from + 4 <= words; from += 4)
        if ((changes(from) | changes(from + 1) | changes(from + 2) | changes(from + 3)) != 0) break;
    while (from < words && word_at(was, from) == word_at(is, from)) ++from;
    return from;
}

/// Writes what is different between two calls of one size, and makes them the same.
std::byte* write_changes(std::byte* was, const std::byte* is, size_t words, std::byte* out) {
    size_t next = 0;  // word, that the reader has come to
    const auto put = [&out](size_t byte) { *out++ = static_cast<std::byte>(byte); };
    const auto changed = [&](size_t i) { return bytes_set(word_at(was, i) ^ word_at(is, i)); };
    for (size_t i = next_changed(was, is, 0, words); i < words; i = next_changed(was, is, next, words)) {
        for (; i - next > k_most_gap; next += k_skip) put(k_skip);
        const uint8_t bytes = changed(i);
        if (!k_travels_whole[bytes]) {
            put(i - next);
            put(bytes);
            for (unsigned left = bytes; left != 0; left &= left - 1)
                *out++ = is[i * k_word + static_cast<size_t>(std::countr_zero(left))];
            std::memcpy(was + i * k_word, is + i * k_word, k_word);
            next = i + 1;
            continue;
        }
        size_t end = i + 1;
        while (end < words && end - i < k_most_run && k_travels_whole[changed(end)]) ++end;
        put(k_run | (i - next));
        put(end - i);
        std::memcpy(out, is + i * k_word, (end - i) * k_word);
        std::memcpy(was + i * k_word, is + i * k_word, (end - i) * k_word);
        out += (end - i) * k_word;
        next = end;
    }
    put(k_end);
    return out;
}

/// Takes bytes from the front. Nothing if there are not as many.
bool take(BytesView& from, size_t count, BytesView& taken) {
    if (count > from.size()) return false;
    taken = from.first(count);
    from = from.subspan(count);
    return true;
}

bool take_byte(BytesView& from, uint8_t& byte) {
    if (from.empty()) return false;
    byte = static_cast<uint8_t>(from.front());
    from = from.subspan(1);
    return true;
}

constexpr Error k_cut_off{Code::malformed, "a compact call is cut off"};

/// Reads what is different, and changes the words accordingly.
Result<void> read_changes(BytesView& items, MutableBytesView words) {
    const auto outside = [] { return malformed("a compact call changes more than there is of the call that it is like"); };
    size_t next = 0;  // byte
    for (;;) {
        uint8_t gap = 0, what = 0;
        if (!take_byte(items, gap)) return k_cut_off;
        if (gap == k_end) return {};
        if (gap == k_skip) {
            next += size_t{k_skip} * k_word;
            if (next > words.size()) return outside();
            continue;
        }
        const bool is_run = (gap & k_run) != 0;
        gap &= static_cast<uint8_t>(~k_run);
        if (gap > k_most_gap) return malformed("a compact call has bits set that mean nothing yet");
        if (!take_byte(items, what)) return k_cut_off;
        if (what == 0) return malformed("a compact call changes nothing where it should");
        next += size_t{gap} * k_word;
        const size_t bytes = is_run ? size_t{what} * k_word : k_word;
        if (next > words.size() || bytes > words.size() - next) return outside();
        BytesView changes;
        if (!take(items, is_run ? bytes : static_cast<size_t>(std::popcount(what)), changes)) return k_cut_off;
        std::byte* const word = words.data() + next;
        if (is_run) {
            std::memcpy(word, changes.data(), bytes);
        } else {
            size_t index = 0;
            for (unsigned left = what; left != 0; left &= left - 1) word[std::countr_zero(left)] = changes[index++];
        }
        next += bytes;
    }
}

}  // namespace

bool RememberedCalls::keep(BytesView words) {
    if (!m_words.append(words)) return false;
    m_slots.push_back({static_cast<uint32_t>(m_used_words), static_cast<uint32_t>(words.size() / k_word)});
    m_used_words += words.size() / k_word;
    return true;
}

void RememberedCalls::forget() {
    m_slots.clear();
    m_words.clear();
    m_used_words = 0;
}

CompactWriter::CompactWriter(uint16_t most_calls)
    : m_remembered(std::min(most_calls, RememberedCalls::k_most_calls)), m_known(k_places) {}

size_t CompactWriter::find(uint64_t key, size_t words) const {
    // The factor spreads what differs in a few bits over the upper ones (Fibonacci hashing).
    size_t place = ((key ^ words) * 0x9E3779B97F4A7C15) >> (64 - std::countr_zero(k_places));
    while (m_known[place].words != 0 && (m_known[place].key != key || m_known[place].words != words))
        place = (place + 1) % k_places;
    return place;
}

size_t CompactWriter::write(BytesView message, uint64_t key, std::byte* out) {
    const size_t words = message.size() / k_word - 1;  // without the framing
    const size_t place = find(key, words);
    const Known& known = m_known[place];
    if (known.words == 0) return write_whole(message, key, place, out);
    std::byte* end = out;
    if (known.number < k_near_numbers) {
        *end++ = static_cast<std::byte>(known.number);
    } else {
        *end++ = static_cast<std::byte>(k_far | known.number >> 8);
        *end++ = static_cast<std::byte>(known.number);
    }
    end = write_changes(m_remembered.words(known.number).data(), message.data() + k_word, words, end);
    ++m_alike;
    return static_cast<size_t>(end - out);
}

size_t CompactWriter::write_whole(BytesView message, uint64_t key, size_t place, std::byte* out) {
    const BytesView words = message.subspan(k_word);
    const size_t count = words.size() / k_word;
    const bool fits = count <= RememberedCalls::k_most_call_words;
    std::byte* end = out;
    if (fits && !m_remembered.has_room(count) && m_remembered.size() != 0) {
        m_remembered.forget();
        std::fill(m_known.begin(), m_known.end(), Known{});
        *end++ = static_cast<std::byte>(k_forget);
        place = find(key, count);
    }
    const auto number = static_cast<uint32_t>(m_remembered.size());
    const bool kept = m_remembered.has_room(count) && m_remembered.keep(words);
    if (kept) m_known[place] = {key, static_cast<uint32_t>(count), number};
    *end++ = static_cast<std::byte>(kept ? k_keep : k_whole);
    std::memcpy(end, message.data(), message.size());
    return static_cast<size_t>(end - out) + message.size();
}

Result<void> CompactReader::expand(BytesView items, uint32_t count, MutableBytesView out) {
    for (uint32_t i = 0; i < count; ++i) WL_TRY(read_call(items, out));
    if (!out.empty()) return malformed("compact calls are shorter than the batch says");
    const bool padded =
        items.size() < k_word && std::all_of(items.begin(), items.end(), [](std::byte b) { return b == std::byte{}; });
    if (!padded) return malformed("a batch has bytes that belong to no call");
    return {};
}

Result<void> CompactReader::read_call(BytesView& items, MutableBytesView& out) {
    uint8_t first = 0;
    if (!take_byte(items, first)) return k_cut_off;
    if (first == k_forget) {
        m_remembered.forget();
        if (!take_byte(items, first)) return k_cut_off;
    }
    if (first == k_keep || first == k_whole) return read_whole(items, out, first == k_keep);
    size_t number = first;
    if (first >= k_near_numbers) {
        uint8_t second = 0;
        if (first > (k_far | 0x0F)) return malformed("a compact call begins with what means nothing yet", first);
        if (!take_byte(items, second)) return k_cut_off;
        number = static_cast<size_t>(first & 0x0F) << 8 | second;
    }
    if (number >= m_remembered.size()) return malformed("a compact call is like one that there is not");
    return read_alike(items, out, number);
}

Result<void> CompactReader::read_whole(BytesView& items, MutableBytesView& out, bool keep) {
    const size_t bytes = WL_TRY(message_bytes_at(items));
    BytesView message;
    if (bytes > out.size() || !take(items, bytes, message)) return malformed("compact calls are longer than the batch says");
    std::memcpy(out.data(), message.data(), bytes);
    out = out.subspan(bytes);
    if (!keep) return {};
    if (!m_remembered.has_room(bytes / k_word - 1)) return malformed("more calls are to be remembered than may be");
    if (!m_remembered.keep(message.subspan(k_word))) return Error{Code::alloc_failed, "no memory for a call"};
    return {};
}

Result<void> CompactReader::read_alike(BytesView& items, MutableBytesView& out, size_t number) {
    const MutableBytesView words = m_remembered.words(number);
    WL_TRY(read_changes(items, words));
    if (words.size() + k_word > out.size()) return malformed("compact calls are longer than the batch says");
    const uint64_t framing = uint64_t{words.size() / k_word} << 32;
    std::memcpy(out.data(), &framing, k_word);
    std::memcpy(out.data() + k_word, words.data(), words.size());
    out = out.subspan(words.size() + k_word);
    return {};
}

}  // namespace warpline::protocol
