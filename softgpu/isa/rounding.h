// Rounding modes in a scope.
#pragma once

#include <cfenv>
#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace warpline::softgpu::isa {

enum class Rounding : uint8_t { nearest, zero, down, up };

/// Rounding of arithmetic in a scope. What is computed must come from memory and go to memory within it: the barriers keep the
/// compiler from moving loads and stores, and with them the arithmetic between, across the change of mode.
class RoundingScope {
public:
    explicit RoundingScope(Rounding rounding) {
        if (rounding == Rounding::nearest) return;
        m_changed = true;
#if defined(__x86_64__)
        m_saved = _mm_getcsr();
        const unsigned bits[] = {_MM_ROUND_NEAREST, _MM_ROUND_TOWARD_ZERO, _MM_ROUND_DOWN, _MM_ROUND_UP};
        _mm_setcsr((m_saved & ~unsigned{_MM_ROUND_MASK}) | bits[unsigned(rounding)]);
#else
        const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
        m_saved = unsigned(std::fegetround());
        std::fesetround(modes[unsigned(rounding)]);
#endif
        asm volatile("" ::: "memory");
    }
    ~RoundingScope() {
        if (!m_changed) return;
        asm volatile("" ::: "memory");
#if defined(__x86_64__)
        _mm_setcsr(m_saved);
#else
        std::fesetround(int(m_saved));
#endif
    }
    RoundingScope(const RoundingScope&) = delete;
    RoundingScope& operator=(const RoundingScope&) = delete;

private:
    bool m_changed = false;
    unsigned m_saved = 0;
};

/// rn, rz, rm, rp and the integer forms rni, rzi, rmi, rpi. False for other words.
inline bool rounding_from(std::string_view word, Rounding& out, bool& to_integer) {
    if (word.size() < 2 || word.size() > 3 || word[0] != 'r') return false;
    if (word.size() == 3 && word[2] != 'i') return false;
    switch (word[1]) {
        case 'n': out = Rounding::nearest; break;
        case 'z': out = Rounding::zero; break;
        case 'm': out = Rounding::down; break;
        case 'p': out = Rounding::up; break;
        default: return false;
    }
    to_integer = word.size() == 3;
    return true;
}

}  // namespace warpline::softgpu::isa
