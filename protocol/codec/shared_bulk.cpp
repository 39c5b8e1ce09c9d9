// Slots, taken and given back.
#include "protocol/codec/shared_bulk.h"

#include <bit>
#include <cstring>

namespace warpline::protocol {

namespace {

constexpr uint64_t k_most_shared_bytes = uint64_t{1} << 30;

bool lies_in(BytesView memory, BytesView bytes) {
    return bytes.data() >= memory.data() && bytes.data() + bytes.size() <= memory.data() + memory.size();
}

}  // namespace

Result<SharedLayout> SharedLayout::checked(uint64_t to_server_bytes, uint64_t to_client_bytes) {
    constexpr uint64_t k_grain = k_slots * 4096;
    if (to_server_bytes == 0 || to_server_bytes % k_grain != 0 || to_server_bytes > k_most_shared_bytes ||
        to_client_bytes == 0 || to_client_bytes % 4096 != 0 || to_client_bytes > k_most_shared_bytes)
        return malformed("shared memory is divided in a way that makes no sense");
    return SharedLayout{to_server_bytes, to_client_bytes};
}

std::optional<uint64_t> SharedSlots::place(OutFrame& frame) {
    const BytesView payload = frame.payload_view();
    if (payload.size() > part_bytes()) return std::nullopt;
    // Sent before, over a connection that is lost.
    if (lies_in(m_memory, payload)) return static_cast<uint64_t>(payload.data() - m_memory.data());
    uint64_t free = m_free.load(std::memory_order_acquire);
    uint64_t slot = 0;
    do {
        if (free == 0) return std::nullopt;
        // The lowest: few slots stay in use, and in the processor's cache.
        slot = free & (~free + 1);
    } while (!m_free.compare_exchange_weak(free, free & ~slot, std::memory_order_acq_rel));
    const size_t offset = static_cast<size_t>(std::countr_zero(slot)) * part_bytes();
    std::memcpy(m_memory.data() + offset, payload.data(), payload.size());
    // The program's memory is no longer needed for it.
    frame.external_payload = BytesView(m_memory).subspan(offset, payload.size());
    return offset;
}

Result<void> SharedSlots::freed(uint64_t slots) {
    const uint64_t before = m_free.fetch_or(slots, std::memory_order_acq_rel);
    if ((before & slots) != 0) return malformed("shared memory is given back that was not in use");
    return {};
}

std::optional<uint64_t> SharedStaging::place(OutFrame& frame) {
    const BytesView payload = frame.payload_view();
    // What is borrowed is its owner's again when it has been sent, and the client reads it later.
    if (!frame.lent.is_lent() || !lies_in(m_memory, payload)) return std::nullopt;
    return static_cast<uint64_t>(payload.data() - m_memory.data());
}

Result<void> SharedStaging::freed(uint64_t slots) {
    if (slots != 0) return malformed("shared memory is given back by who has none");
    return {};
}

void SharedArrivals::give_back(std::byte* data) {
    const auto slot = static_cast<size_t>(data - m_memory.data()) / (m_memory.size() / SharedLayout::k_slots);
    m_freed.fetch_or(uint64_t{1} << slot, std::memory_order_acq_rel);
}

}  // namespace warpline::protocol
