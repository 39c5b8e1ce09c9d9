#pragma once

// Sizes and ranges of memory that are made of numbers of a stranger's: nothing here wraps around.

#include <cstdint>

namespace warpline {

/// A number that never wraps around: what does not fit 64 bits is "too large", and stays so whatever is done with it.
class Checked {
public:
    constexpr Checked(uint64_t value = 0) : m_value(value) {}  // NOLINT: numbers become checked ones by themselves

    constexpr bool fits() const { return m_fits; }
    /// Only if it fits.
    constexpr uint64_t value() const { return m_value; }
    constexpr bool is_zero() const { return m_fits && m_value == 0; }
    /// True if it fits and is at most `limit`.
    constexpr bool at_most(uint64_t limit) const { return m_fits && m_value <= limit; }

    friend constexpr Checked operator+(Checked a, Checked b) {
        Checked sum;
        sum.m_fits = !__builtin_add_overflow(a.m_value, b.m_value, &sum.m_value) && a.m_fits && b.m_fits;
        return sum;
    }
    friend constexpr Checked operator*(Checked a, Checked b) {
        // Zero times anything is zero, also if the other one is too large.
        if (a.is_zero() || b.is_zero()) return {};
        Checked product;
        product.m_fits = !__builtin_mul_overflow(a.m_value, b.m_value, &product.m_value) && a.m_fits && b.m_fits;
        return product;
    }

private:
    uint64_t m_value = 0;
    bool m_fits = true;
};

/// What a call touches: layers of rows of bytes. A linear range is one row.
struct Region {
    Checked address;    ///< of the first byte
    Checked row_bytes;  ///< that are touched in each row
    Checked rows = 1;
    Checked pitch = 0;  ///< bytes from a row to the next one; without meaning where there is one row
    Checked layers = 1;
    Checked layer_pitch = 0;  ///< bytes from a layer to the next one; without meaning where there is one layer

    /// Nothing is touched, wherever it would lie.
    constexpr bool is_empty() const { return row_bytes.is_zero() || rows.is_zero() || layers.is_zero(); }
    /// From the first byte to behind the last one; of a region that is not empty.
    constexpr Checked span() const { return less_one(layers) * layer_pitch + less_one(rows) * pitch + row_bytes; }
    /// True if it lies in 64 bits of addresses.
    constexpr bool fits() const { return (address + span()).fits(); }

private:
    static constexpr Checked less_one(Checked number) { return number.fits() ? Checked(number.value() - 1) : number; }
};

}  // namespace warpline
