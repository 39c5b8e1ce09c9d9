// Lists of executed calls: numbers as differences to the call before, in groups of seven bits (LEB128).
#include "protocol/codec/executed.h"

#include <optional>

namespace warpline::protocol {

namespace {

constexpr unsigned k_group_bits = 7;
constexpr uint64_t k_group_mask = 0x7f, k_more = 0x80;

void put(Bytes& out, uint64_t value) {
    for (; value > k_group_mask; value >>= k_group_bits) out.push_back(static_cast<std::byte>((value & k_group_mask) | k_more));
    out.push_back(static_cast<std::byte>(value));
}

/// Small differences of either sign become small numbers.
uint64_t folded(uint64_t difference) { return (difference << 1) ^ (difference >> 63 ? ~uint64_t{0} : 0); }
uint64_t unfolded(uint64_t value) { return (value >> 1) ^ (value & 1 ? ~uint64_t{0} : 0); }

class Reader {
public:
    explicit Reader(BytesView bytes) : m_left(bytes) {}
    std::optional<uint64_t> take() {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !m_left.empty(); shift += k_group_bits) {
            const auto group = std::to_integer<uint64_t>(m_left.front());
            m_left = m_left.subspan(1);
            value |= (group & k_group_mask) << shift;
            if ((group & k_more) == 0) return value;
        }
        return std::nullopt;
    }
    bool at_end() const { return m_left.empty(); }

private:
    BytesView m_left;
};

}  // namespace

Bytes encode_executed(const std::vector<ExecutedCall>& calls) {
    Bytes out;
    out.reserve(calls.size() * 12);
    ExecutedCall before;
    for (const ExecutedCall& call : calls) {
        put(out, folded(call.number - before.number));
        put(out, call.id);
        put(out, call.thread);
        put(out, folded(call.begin_ns - before.begin_ns));
        put(out, call.duration_ns);
        before = call;
    }
    return out;
}

Result<std::vector<ExecutedCall>> decode_executed(BytesView bytes, size_t count) {
    const Error wrong{Code::malformed, "a list of executed calls is malformed"};
    if (count > k_most_executed_calls) return wrong;
    std::vector<ExecutedCall> calls;
    calls.reserve(count);
    Reader reader(bytes);
    ExecutedCall before;
    for (size_t i = 0; i < count; ++i) {
        const auto number = reader.take(), id = reader.take(), thread = reader.take(), begin = reader.take(),
                   duration = reader.take();
        if (!duration || *id > UINT16_MAX || *thread > UINT16_MAX) return wrong;
        before = {before.number + unfolded(*number), static_cast<uint16_t>(*id), static_cast<uint16_t>(*thread),
                  before.begin_ns + unfolded(*begin), *duration};
        calls.push_back(before);
    }
    if (!reader.at_end()) return wrong;
    return calls;
}

}  // namespace warpline::protocol
