// Between the fragments that a warp holds in its registers and matrices in memory: for matrix.cpp. Fragments of the common
// shapes go by vectors of eight values, others value by value with the help of their table.
#pragma once

#include "softgpu/isa/level/level.h"
#include "softgpu/isa/matrix_spec.h"

namespace warpline::softgpu::isa::WL_LEVEL {

/// N values that are computed on together. Said as a type: left to itself the compiler chooses another loop to vectorise, and
/// collects the values of a column one by one.
template <typename T, uint32_t N>
struct Columns {
    typedef T Type __attribute__((vector_size(N * sizeof(T))));
};
template <typename T>
using EightValues = typename Columns<T, 8>::Type;

template <typename T>
WL_INLINE EightValues<T> load_eight(const T* from) {
    EightValues<T> out;
    __builtin_memcpy(&out, from, sizeof out);
    return out;
}
template <typename T>
WL_INLINE void store_eight(T* to, const EightValues<T>& value) {
    __builtin_memcpy(to, &value, sizeof value);
}

/// Eight lines of eight values: value e of all lines goes to `to + e * pitch`.
template <typename T>
WL_INLINE void turn_eight_by_eight(T* to, uint32_t pitch, const T* from) {
    using V = EightValues<T>;
    V r[8], t[8], u[8];
    for (uint32_t l = 0; l < 8; ++l) r[l] = load_eight(from + 8 * l);
    for (uint32_t p = 0; p < 4; ++p) {  // pairs of lines
        t[2 * p] = __builtin_shufflevector(r[2 * p], r[2 * p + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[2 * p + 1] = __builtin_shufflevector(r[2 * p], r[2 * p + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (uint32_t h = 0; h < 2; ++h) {  // four lines; u[4 h + e]: values e and e + 4 of them
        for (uint32_t e = 0; e < 2; ++e) {
            u[4 * h + 2 * e] = __builtin_shufflevector(t[4 * h + e], t[4 * h + 2 + e], 0, 1, 8, 9, 4, 5, 12, 13);
            u[4 * h + 2 * e + 1] = __builtin_shufflevector(t[4 * h + e], t[4 * h + 2 + e], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (uint32_t e = 0; e < 4; ++e) {
        store_eight<T>(to + e * pitch, __builtin_shufflevector(u[e], u[4 + e], 0, 1, 2, 3, 8, 9, 10, 11));
        store_eight<T>(to + (e + 4) * pitch, __builtin_shufflevector(u[e], u[4 + e], 4, 5, 6, 7, 12, 13, 14, 15));
    }
}

/// The same for eight lines of four values.
template <typename T, uint32_t E>
WL_INLINE void turn_value(T* to, uint32_t pitch, const EightValues<T> (&lines)[4]) {
    const EightValues<T> low = __builtin_shufflevector(lines[0], lines[1], E, E + 4, E + 8, E + 12, E, E, E, E);
    const EightValues<T> high = __builtin_shufflevector(lines[2], lines[3], E, E + 4, E + 8, E + 12, E, E, E, E);
    store_eight<T>(to + E * pitch, __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11));
}
template <typename T>
WL_INLINE void turn_eight_by_four(T* to, uint32_t pitch, const T* from) {
    const EightValues<T> lines[4] = {load_eight(from), load_eight(from + 8), load_eight(from + 16), load_eight(from + 24)};
    turn_value<T, 0>(to, pitch, lines);
    turn_value<T, 1>(to, pitch, lines);
    turn_value<T, 2>(to, pitch, lines);
    turn_value<T, 3>(to, pitch, lines);
}

/// Puts the values of one register where they belong in a matrix. `at`: the register's part of the table.
template <typename T>
WL_INLINE void place(const FragmentTable& table, const uint16_t* at, T* matrix, const T* row) {
    const uint32_t values = 32 * table.per_lane;
    if (table.arrangement == Arrangement::lines && table.per_lane == 1) {
        for (uint32_t v = 0; v < 32; v += 4) copy_row<4 * sizeof(T)>(matrix + at[v], row + v);
    } else if (table.arrangement == Arrangement::lines) {
        for (uint32_t v = 0; v < values; v += 8) copy_row<8 * sizeof(T)>(matrix + at[v], row + v);
    } else if (table.arrangement == Arrangement::columns && table.per_lane == 2) {
        turn_eight_by_eight(matrix + at[0], table.pitch, row);
    } else if (table.arrangement == Arrangement::columns && table.per_lane == 1) {
        turn_eight_by_four(matrix + at[0], table.pitch, row);
    } else {
        for (uint32_t v = 0; v < values; ++v) matrix[at[v]] = row[v];
    }
}

/// Puts the values of a fragment where they belong in a matrix. read(slot, row): all values of a register.
template <typename T, typename Read>
WL_INLINE void gather(const MatrixOperand& operand, T* matrix, Read read) {
    alignas(64) T row[256];
    for (uint32_t v = 0; v < 64; ++v) row[v] = T();  // compilers do not see that `per_lane` says how many are read
    const FragmentTable& table = operand.table;
    const uint32_t values = 32 * table.per_lane;
    if (table.arrangement == Arrangement::pairs) {
        alignas(64) T both[64];
        for (uint32_t r = 0; r < table.registers; r += 2) {
            read(operand.slots[r], row);
            read(operand.slots[r + 1], row + 32);
            for (uint32_t l = 0; l < 32; ++l) {
                both[2 * l] = row[l];
                both[2 * l + 1] = row[32 + l];
            }
            const uint16_t* at = table.at + r * 32;
            for (uint32_t l = 0; l < 32; l += 4) copy_row<8 * sizeof(T)>(matrix + at[l], both + 2 * l);
        }
        return;
    }
    for (uint32_t r = 0; r < table.registers; ++r) {
        read(operand.slots[r], row);
        place(table, table.at + r * values, matrix, row);
    }
}

template <typename T>
WL_INLINE void write_row(Warp& w, int32_t slot, uint32_t mask, const T* row) {
    Select<sizeof(T)>::run(dest<T>(w, slot), row, dest<T>(w, slot), mask);
}

/// The opposite, for registers of one 4- or 8-byte value in a lane.
template <typename T>
WL_INLINE void scatter(Warp& w, const MatrixOperand& operand, const T* matrix, uint32_t mask) {
    const FragmentTable& table = operand.table;
    alignas(64) T row[64], both[64];
    if (table.arrangement == Arrangement::pairs && operand.count == table.registers) {
        for (uint32_t r = 0; r < table.registers; r += 2) {
            const uint16_t* at = table.at + r * 32;
            for (uint32_t l = 0; l < 32; l += 4) copy_row<8 * sizeof(T)>(both + 2 * l, matrix + at[l]);
            for (uint32_t l = 0; l < 32; ++l) {
                row[l] = both[2 * l];
                row[32 + l] = both[2 * l + 1];
            }
            write_row(w, operand.slots[r], mask, row);
            write_row(w, operand.slots[r + 1], mask, row + 32);
        }
        return;
    }
    for (uint32_t r = 0; r < operand.count; ++r) {
        const uint16_t* at = table.at + r % table.registers * 32;
        for (uint32_t l = 0; l < 32; ++l) row[l] = matrix[at[l]];
        write_row(w, operand.slots[r], mask, row);
    }
}

}  // namespace warpline::softgpu::isa::WL_LEVEL
