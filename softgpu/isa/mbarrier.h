// The barrier objects of 64 bits in shared memory, on which mbarrier, cp.async.bulk, st.async and red.async work.
// PTX ISA: "mbarrier". All CTAs of a cluster are run by one thread at a time: plain accesses are enough.
#pragma once

#include <cstdint>

#include "softgpu/isa/row_address.h"

namespace warpline::softgpu::isa {

/// The object: bits 0 … 19 arrivals still pending, 20 … 39 arrivals expected in a phase, 40 … 61 bytes still to come (signed:
/// bytes may come before they are announced), 62 the parity of the phase. A state token is the object as it was.
class MbarrierObject {
public:
    static constexpr uint32_t k_max_count = (1u << 20) - 1;

    explicit MbarrierObject(std::byte* at) : m_at(at) { __builtin_memcpy(&m_bits, at, sizeof m_bits); }

    uint64_t bits() const { return m_bits; }
    static uint32_t pending(uint64_t bits) { return uint32_t(bits & k_max_count); }
    static bool phase(uint64_t bits) { return (bits >> 62 & 1) != 0; }

    void init(uint32_t count) { put(count & k_max_count, count & k_max_count, 0, false); }
    void invalidate() {
        m_bits = 0;
        write();
    }
    void expect(int64_t bytes) { put(pending(m_bits), expected(), transactions() + bytes, phase(m_bits)); }
    /// Bytes have come; may complete the phase.
    void complete_transaction(int64_t bytes) {
        expect(-bytes);
        settle();
    }
    /// `drop`: the arriving threads do not come to later phases either.
    void arrive(uint32_t count, bool drop) {
        uint32_t left = pending(m_bits), all = expected();
        put(left - (count < left ? count : left), drop ? all - (count < all ? count : all) : all, transactions(),
            phase(m_bits));
        settle();
    }

private:
    uint32_t expected() const { return uint32_t(m_bits >> 20 & k_max_count); }
    int64_t transactions() const { return int64_t(m_bits << 2) >> 42; }
    void put(uint32_t left, uint32_t all, int64_t bytes, bool parity) {
        m_bits = uint64_t{left} | uint64_t{all} << 20 | (uint64_t(bytes) & 0x3fffff) << 40 | uint64_t{parity} << 62;
        write();
    }
    void settle() {
        if (pending(m_bits) == 0 && transactions() == 0) put(expected(), expected(), 0, !phase(m_bits));
    }
    void write() { __builtin_memcpy(m_at, &m_bits, sizeof m_bits); }

    std::byte* m_at;
    uint64_t m_bits;
};

constexpr uint32_t k_mbarrier_bytes = 8;

}  // namespace warpline::softgpu::isa
