// Products of the matrices that a warp holds in its registers: what mma and wmma.mma do after decoding (Instr::extra is a
// MatrixSpec). Products of 16-bit and narrower floats are exact in float; sums are rounded to float, in the order of k.
#include "softgpu/isa/level/half_lanes.h"
#include "softgpu/isa/level/matrix_lanes.h"
#include "softgpu/isa/level/tables.h"

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

/// a * b + c, rounded once where the CPU can, which Exact says makes no difference: products that need no rounding.
template <bool Exact, typename V>
WL_INLINE V multiply_add(const V& a, const V& b, const V& c) {
#if defined(__AVX512F__)
    if constexpr (Exact && sizeof(V) == 64) return V(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#endif
#if defined(__FMA__)
    if constexpr (Exact && sizeof(V) == 32) return V(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#endif
    return a * b + c;
}

/// c += a * b, some rows of N columns at once: each sum takes its terms in the order of k, and several sums hide each other's
/// wait. K is k where that is known: the distances of the rows are constants then. 0: it is not.
template <typename T, uint32_t N, uint32_t K, bool Exact>
WL_INLINE void multiply_rows(uint32_t m, uint32_t any_k, const T* a, const T* b, T* c) {
    using V = typename Columns<T, N>::Type;
    const uint32_t k = K != 0 ? K : any_k;
#if defined(__AVX512F__)
    constexpr uint32_t k_rows = 8;
#else
    constexpr uint32_t k_rows = 4;
#endif
    for (uint32_t row = 0; row < m; row += k_rows) {
        V sums[k_rows];
        for (uint32_t r = 0; r < k_rows; ++r) __builtin_memcpy(&sums[r], c + (row + r) * N, sizeof(V));
        const T* factor = a + row * k;
        for (uint32_t i = 0; i < k; ++i) {
            V terms;
            __builtin_memcpy(&terms, b + i * N, sizeof(V));
            for (uint32_t r = 0; r < k_rows; ++r) sums[r] = multiply_add<Exact, V>(factor[r * k + i] - V{}, terms, sums[r]);
        }
        for (uint32_t r = 0; r < k_rows; ++r) __builtin_memcpy(c + (row + r) * N, &sums[r], sizeof(V));
    }
}

template <typename T, uint32_t N, bool Exact>
WL_INLINE void multiply(uint32_t m, uint32_t k, const T* a, const T* b, T* c) {
    if (k == 16)
        multiply_rows<T, N, 16, Exact>(m, k, a, b, c);
    else if (k == 8)
        multiply_rows<T, N, 8, Exact>(m, k, a, b, c);
    else
        multiply_rows<T, N, 0, Exact>(m, k, a, b, c);
}

template <typename T, bool Exact>
WL_INLINE void multiply(uint32_t m, uint32_t n, uint32_t k, const T* a, const T* b, T* c) {
    if (n == 8)
        multiply<T, 8, Exact>(m, k, a, b, c);
    else if (n == 16)
        multiply<T, 16, Exact>(m, k, a, b, c);
    else
        multiply<T, 32, Exact>(m, k, a, b, c);
}

Flow multiply_floats(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const MatrixSpec& spec = *static_cast<const MatrixSpec*>(i.extra);
    alignas(64) float a[k_matrix_elements], b[k_matrix_elements], c[k_accumulator_elements];
    gather(spec.a, a, [&](int32_t slot, float* out) { read_floats(w, spec.a.kind, slot, out); });
    gather(spec.b, b, [&](int32_t slot, float* out) { read_floats(w, spec.b.kind, slot, out); });
    gather(spec.c, c, [&](int32_t slot, float* out) { read_floats(w, spec.c.kind, slot, out); });
    // bf16 and tf32 have float's exponents: their products can leave its range.
    const bool exact = spec.a.kind != MatrixKind::bf16 && spec.a.kind != MatrixKind::tf32;
    for (uint32_t p = 0; p < spec.batch; ++p) {
        const float *pa = a + p * spec.m * spec.k, *pb = b + p * spec.k * spec.n;
        float* pc = c + p * spec.m * spec.n;
        if (exact)
            multiply<float, true>(spec.m, spec.n, spec.k, pa, pb, pc);
        else
            multiply<float, false>(spec.m, spec.n, spec.k, pa, pb, pc);
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
    multiply<int32_t, false>(spec.m, spec.n, spec.k, a, rows, sums);  // at most 128 products of 8 bits: cannot overflow
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

typedef double FourDoubles __attribute__((vector_size(32)));

WL_INLINE FourDoubles multiply_add(double a, const FourDoubles& b, const FourDoubles& c) {
#if defined(__FMA__)
    return FourDoubles(_mm256_fmadd_pd(_mm256_set1_pd(a), __m256d(b), __m256d(c)));
#else
    FourDoubles out;
    for (uint32_t j = 0; j < 4; ++j) out[j] = __builtin_fma(a, b[j], c[j]);
    return out;
#endif
}

/// m8n8k4: one register each holds A (rows) and B (columns); the two of C and D hold the even and the odd columns.
WL_INLINE void multiply_eight_by_eight(Warp& w, const MatrixSpec& spec, uint32_t mask) {
    const auto* a = source<double>(w, spec.a.slots[0]);
    const auto* b = source<double>(w, spec.b.slots[0]);
    alignas(64) double d[2][32];
    for (uint32_t odd = 0; odd < 2; ++odd) {
        const auto* c = source<double>(w, spec.c.slots[odd]);
        FourDoubles columns[4];
        for (uint32_t k = 0; k < 4; ++k) {
            for (uint32_t j = 0; j < 4; ++j) columns[k][j] = b[(2 * j + odd) * 4 + k];
        }
        for (uint32_t row = 0; row < 8; ++row) {
            FourDoubles sum;
            __builtin_memcpy(&sum, c + row * 4, sizeof sum);
            for (uint32_t k = 0; k < 4; ++k) sum = multiply_add(a[row * 4 + k], columns[k], sum);
            __builtin_memcpy(&d[odd][row * 4], &sum, sizeof sum);
        }
    }
    write_row(w, spec.d.slots[0], mask, d[0]);
    write_row(w, spec.d.slots[1], mask, d[1]);
}

Flow multiply_doubles(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const MatrixSpec& spec = *static_cast<const MatrixSpec*>(i.extra);
    if (spec.m == 8) {
        multiply_eight_by_eight(w, spec, mask);
        return Flow::next;
    }
    alignas(64) double a[k_accumulator_elements], b[k_accumulator_elements], c[k_accumulator_elements];
    auto read = [&](int32_t slot, double* out) { copy_row<32 * sizeof(double)>(out, source<double>(w, slot)); };
    gather(spec.a, a, read);
    gather(spec.b, b, read);
    gather(spec.c, c, read);
    alignas(64) double rows[k_accumulator_elements];
    for (uint32_t column = 0; column < spec.n; ++column) {
        for (uint32_t l = 0; l < spec.k; ++l) rows[l * spec.n + column] = b[column * spec.k + l];
    }
    for (uint32_t row = 0; row < spec.m; ++row) {
        for (uint32_t column = 0; column < spec.n; column += 4) {
            FourDoubles sum, terms;
            __builtin_memcpy(&sum, c + row * spec.n + column, sizeof sum);
            for (uint32_t l = 0; l < spec.k; ++l) {
                __builtin_memcpy(&terms, rows + l * spec.n + column, sizeof terms);
                sum = multiply_add(a[row * spec.k + l], terms, sum);
            }
            __builtin_memcpy(c + row * spec.n + column, &sum, sizeof sum);
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
