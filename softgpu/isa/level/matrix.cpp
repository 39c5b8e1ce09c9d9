// Products of the matrices that a warp holds in its registers: what mma and wmma.mma do after decoding (Instr::extra is a
// MatrixSpec). Products of 16-bit and narrower floats are exact in float; sums are rounded to float, in the order of k.
#include "softgpu/isa/level/half_lanes.h"
#include "softgpu/isa/level/tables.h"
#include "softgpu/isa/matrix_spec.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

constexpr uint32_t k_all_lanes[32] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
                                      ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};

/// Values of e4m3 and e5m2, which are the upper halves of f16 (e5m2) or nearly so.
WL_INLINE float widen_e5m2(uint8_t code) { return F16::widen(uint16_t(code << 8)); }
WL_INLINE float widen_e4m3(uint8_t code) {
    const uint32_t magnitude = code & 0x7fu;
    // With the exponent's bias of 7 moved to 15: a multiplication, which also makes denormals right.
    float value = F16::widen(uint16_t(magnitude << 7)) * 256.0f;
    value = magnitude == 0x7fu ? float_of(0x7fffffffu) : value;
    return float_of(bits_of(value) | uint32_t(code & 0x80u) << 24);
}

/// The values of one register of all lanes, lane by lane.
WL_INLINE void read_floats(const Warp& w, MatrixKind kind, int32_t slot, float* out) {
    switch (kind) {
        case MatrixKind::f16: widen_row<F16, 64, false>(out, source<uint16_t>(w, slot)); break;
        case MatrixKind::bf16: widen_row<BF16, 64, false>(out, source<uint16_t>(w, slot)); break;
        case MatrixKind::tf32: {
            const auto* from = source<uint32_t>(w, slot);
            WL_EACH(l, 32) out[l] = float_of(from[l] & 0xffffe000u);
            break;
        }
        case MatrixKind::e4m3: {
            const auto* from = source<uint8_t>(w, slot);
            WL_EACH(l, 128) out[l] = widen_e4m3(from[l]);
            break;
        }
        case MatrixKind::e5m2: {
            const auto* from = source<uint8_t>(w, slot);
            WL_EACH(l, 128) out[l] = widen_e5m2(from[l]);
            break;
        }
        default: {
            const auto* from = source<float>(w, slot);
            WL_EACH(l, 32) out[l] = from[l];
            break;
        }
    }
}

WL_INLINE void read_integers(const Warp& w, MatrixKind kind, int32_t slot, int32_t* out) {
    const auto* words = source<uint32_t>(w, slot);
    switch (kind) {
        case MatrixKind::s8: {
            const auto* from = source<int8_t>(w, slot);
            WL_EACH(l, 128) out[l] = from[l];
            break;
        }
        case MatrixKind::u8: {
            const auto* from = source<uint8_t>(w, slot);
            WL_EACH(l, 128) out[l] = from[l];
            break;
        }
        case MatrixKind::s4: {
            for (uint32_t l = 0; l < 256; ++l) out[l] = int32_t(words[l / 8] << (28 - 4 * (l % 8))) >> 28;
            break;
        }
        case MatrixKind::u4: {
            for (uint32_t l = 0; l < 256; ++l) out[l] = int32_t(words[l / 8] >> (4 * (l % 8)) & 15u);
            break;
        }
        default: {
            WL_EACH(l, 32) out[l] = int32_t(words[l]);
            break;
        }
    }
}

/// Puts the values of a fragment where they belong in a matrix.
template <typename T, typename Read>
WL_INLINE void gather(const MatrixOperand& operand, T* matrix, Read read) {
    alignas(64) T row[256];
    const uint32_t values = 32 * operand.table.per_lane;
    for (uint32_t r = 0; r < operand.table.registers; ++r) {
        read(operand.slots[r], row);
        const uint16_t* at = operand.table.at + r * values;
        for (uint32_t v = 0; v < values; ++v) matrix[at[v]] = row[v];
    }
}

template <typename T>
WL_INLINE void write_row(Warp& w, int32_t slot, uint32_t mask, const T* row) {
    Select<sizeof(T)>::run(dest<T>(w, slot), row, dest<T>(w, slot), mask);
}

/// The opposite, for registers of one 4- or 8-byte value in a lane.
template <typename T>
WL_INLINE void scatter(Warp& w, const MatrixOperand& operand, const T* matrix, uint32_t mask) {
    alignas(64) T row[32];
    for (uint32_t r = 0; r < operand.count; ++r) {
        const uint16_t* at = operand.table.at + r % operand.table.registers * 32;
        for (uint32_t l = 0; l < 32; ++l) row[l] = matrix[at[l]];
        write_row(w, operand.slots[r], mask, row);
    }
}

WL_INLINE void scatter_halves(Warp& w, const MatrixOperand& operand, const float* matrix, uint32_t mask) {
    alignas(64) uint32_t row[32];
    for (uint32_t r = 0; r < operand.count; ++r) {
        const uint16_t* at = operand.table.at + r % operand.table.registers * 64;
        for (uint32_t l = 0; l < 32; ++l) {
            row[l] = F16::narrow(matrix[at[2 * l]]) | uint32_t{F16::narrow(matrix[at[2 * l + 1]])} << 16;
        }
        write_row(w, operand.slots[r], mask, row);
    }
}

/// N values that are computed on together. Said as a type: left to itself the compiler chooses another loop to vectorise, and
/// collects the values of a column one by one.
template <typename T, uint32_t N>
struct Columns {
    typedef T Type __attribute__((vector_size(N * sizeof(T))));
};

/// c += a * b, four rows of N columns at once: each sum takes its terms in the order of k, and four sums hide each other's
/// wait.
template <typename T, uint32_t N>
WL_INLINE void multiply(uint32_t m, uint32_t k, const T* a, const T* b, T* c) {
    using V = typename Columns<T, N>::Type;
    for (uint32_t row = 0; row < m; row += 4) {
        V sums[4];
        for (uint32_t r = 0; r < 4; ++r) __builtin_memcpy(&sums[r], c + (row + r) * N, sizeof(V));
        const T* factor = a + row * k;
        for (uint32_t i = 0; i < k; ++i) {
            V terms;
            __builtin_memcpy(&terms, b + i * N, sizeof(V));
            sums[0] += factor[i] * terms;
            sums[1] += factor[k + i] * terms;
            sums[2] += factor[2 * k + i] * terms;
            sums[3] += factor[3 * k + i] * terms;
        }
        for (uint32_t r = 0; r < 4; ++r) __builtin_memcpy(c + (row + r) * N, &sums[r], sizeof(V));
    }
}

template <typename T>
WL_INLINE void multiply(uint32_t m, uint32_t n, uint32_t k, const T* a, const T* b, T* c) {
    if (n == 8)
        multiply<T, 8>(m, k, a, b, c);
    else if (n == 16)
        multiply<T, 16>(m, k, a, b, c);
    else
        multiply<T, 32>(m, k, a, b, c);
}

Flow multiply_floats(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const MatrixSpec& spec = *static_cast<const MatrixSpec*>(i.extra);
    alignas(64) float a[k_matrix_elements], b[k_matrix_elements], c[k_accumulator_elements];
    gather(spec.a, a, [&](int32_t slot, float* out) { read_floats(w, spec.a.kind, slot, out); });
    gather(spec.b, b, [&](int32_t slot, float* out) { read_floats(w, spec.b.kind, slot, out); });
    gather(spec.c, c, [&](int32_t slot, float* out) { read_floats(w, spec.c.kind, slot, out); });
    const uint32_t size = spec.m * spec.n;
    for (uint32_t p = 0; p < spec.batch; ++p) {
        multiply(spec.m, spec.n, spec.k, a + p * spec.m * spec.k, b + p * spec.k * spec.n, c + p * size);
    }
    if (spec.d.kind == MatrixKind::f16) {
        scatter_halves(w, spec.d, c, mask);
    } else {
        WL_EACH(l, k_accumulator_elements) c[l] = c[l] == c[l] ? c[l] : float_of(0x7fffffffu);
        scatter(w, spec.d, c, mask);
    }
    return Flow::next;
}

Flow multiply_integers(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const MatrixSpec& spec = *static_cast<const MatrixSpec*>(i.extra);
    alignas(64) int32_t a[k_matrix_elements], b[k_matrix_elements], c[k_accumulator_elements];
    gather(spec.a, a, [&](int32_t slot, int32_t* out) { read_integers(w, spec.a.kind, slot, out); });
    gather(spec.b, b, [&](int32_t slot, int32_t* out) { read_integers(w, spec.b.kind, slot, out); });
    gather(spec.c, c, [&](int32_t slot, int32_t* out) { read_integers(w, spec.c.kind, slot, out); });
    alignas(64) int32_t rows[k_matrix_elements], sums[k_accumulator_elements] = {};
    for (uint32_t column = 0; column < spec.n; ++column) {
        for (uint32_t l = 0; l < spec.k; ++l) rows[l * spec.n + column] = b[column * spec.k + l];
    }
    multiply(spec.m, spec.n, spec.k, a, rows, sums);  // at most 128 products of 8 bits: cannot overflow
    for (uint32_t e = 0; e < spec.m * spec.n; ++e) {
        if (!spec.saturate) {
            c[e] = int32_t(uint32_t(c[e]) + uint32_t(sums[e]));
        } else if (__builtin_add_overflow(c[e], sums[e], &c[e])) {
            c[e] = sums[e] < 0 ? INT32_MIN : INT32_MAX;
        }
    }
    scatter(w, spec.d, c, mask);
    return Flow::next;
}

/// Here k counts words of 32 bits.
Flow multiply_bits(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const MatrixSpec& spec = *static_cast<const MatrixSpec*>(i.extra);
    alignas(64) int32_t a[k_matrix_elements], b[k_matrix_elements], c[k_accumulator_elements];
    gather(spec.a, a, [&](int32_t slot, int32_t* out) { read_integers(w, MatrixKind::b1, slot, out); });
    gather(spec.b, b, [&](int32_t slot, int32_t* out) { read_integers(w, MatrixKind::b1, slot, out); });
    gather(spec.c, c, [&](int32_t slot, int32_t* out) { read_integers(w, spec.c.kind, slot, out); });
    for (uint32_t row = 0; row < spec.m; ++row) {
        for (uint32_t column = 0; column < spec.n; ++column) {
            uint32_t sum = uint32_t(c[row * spec.n + column]);
            for (uint32_t l = 0; l < spec.k; ++l) {
                uint32_t x = uint32_t(a[row * spec.k + l]), y = uint32_t(b[column * spec.k + l]);
                sum += uint32_t(__builtin_popcount(spec.bits_and ? x & y : x ^ y));
            }
            c[row * spec.n + column] = int32_t(sum);
        }
    }
    scatter(w, spec.d, c, mask);
    return Flow::next;
}

Flow multiply_doubles(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const MatrixSpec& spec = *static_cast<const MatrixSpec*>(i.extra);
    alignas(64) double a[k_accumulator_elements], b[k_accumulator_elements], c[k_accumulator_elements];
    auto read = [&](int32_t slot, double* out) {
        const auto* from = source<double>(w, slot);
        WL_EACH(l, 32) out[l] = from[l];
    };
    gather(spec.a, a, read);
    gather(spec.b, b, read);
    gather(spec.c, c, read);
    for (uint32_t row = 0; row < spec.m; ++row) {
        for (uint32_t column = 0; column < spec.n; ++column) {
            double sum = c[row * spec.n + column];
            for (uint32_t l = 0; l < spec.k; ++l) sum = __builtin_fma(a[row * spec.k + l], b[column * spec.k + l], sum);
            c[row * spec.n + column] = sum;
        }
    }
    scatter(w, spec.d, c, mask);
    return Flow::next;
}

const Row k_rows[] = {
    {"$matrix.float", &multiply_floats, {}, 0},
    {"$matrix.integer", &multiply_integers, {}, 0},
    {"$matrix.bit", &multiply_bits, {}, 0},
    {"$matrix.double", &multiply_doubles, {}, 0},
};

}  // namespace

Rows matrix_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
