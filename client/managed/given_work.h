// What streams were given that may use memory which the program uses as well.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace warpline::client {

/// The newest call with such work for each stream, by the session's numbers. Not thread-safe: the owner locks.
class GivenWork {
public:
    /// @param stream  its token; nothing: it may be any
    void note(std::optional<uint64_t> stream, uint64_t number) {
        if (stream && (m_newest.size() < k_most_streams || m_newest.contains(*stream)))
            m_newest[*stream] = std::max(m_newest[*stream], number);
        else
            m_elsewhere = std::max(m_elsewhere, number);
    }
    /// True if all work but this stream's is known to be done.
    /// @param idle     what has a smaller number is
    /// @param done_in  up to which number it is in a stream
    template <typename DoneIn>
    bool is_done_beside(uint64_t stream, uint64_t idle, DoneIn done_in) {
        // Streams come and go.
        std::erase_if(m_newest, [idle](const auto& item) { return item.second < idle; });
        if (m_elsewhere != 0 && m_elsewhere >= idle) return false;
        return std::all_of(m_newest.begin(), m_newest.end(),
                           [&](const auto& item) { return item.first == stream || item.second <= done_in(item.first); });
    }

private:
    static constexpr size_t k_most_streams = 256;
    std::map<uint64_t, uint64_t> m_newest;
    uint64_t m_elsewhere = 0;
};

}  // namespace warpline::client
