// PTX's rules of which types may stand for which, as code.
#include "softgpu/passes/conformity.h"

namespace warpline::softgpu::passes {
namespace {

using ptx::Type;

enum class Basic : uint8_t { bits, integer, real, packed, predicate };

Basic basic_of(Type type) {
    if (type == Type::pred) return Basic::predicate;
    if (type == Type::f16 || type == Type::f32 || type == Type::f64) return Basic::real;
    if (ptx::is_bits(type)) return Basic::bits;
    if (type <= Type::s64) return Basic::integer;
    return Basic::packed;  // f16x2, bf16, tf32, e4m3x2 …: they live in registers of bits
}

}  // namespace

bool conforms(Type reg, Type wanted, bool may_be_wider) {
    uint32_t have = ptx::bits_of(reg), want = ptx::bits_of(wanted);
    Basic have_basic = basic_of(reg), want_basic = basic_of(wanted);
    if (reg == Type::f16x2 && want_basic != Basic::real) have_basic = Basic::bits;
    if (have_basic == Basic::predicate || want_basic == Basic::predicate) return reg == wanted;
    if (have < want || (have > want && !may_be_wider)) return false;
    if (have == want && (have_basic == Basic::bits || want_basic == Basic::bits || reg == wanted)) return true;
    if (have > want && (have_basic == Basic::bits || want_basic == Basic::bits)) return true;
    // A wider register of floating point never holds a narrower number.
    if (want_basic == Basic::integer || want_basic == Basic::bits) return have_basic == Basic::integer;
    // u16x2 and s16x2 are integers of a kind.
    if (want_basic == Basic::packed && (wanted == Type::u16x2 || wanted == Type::s16x2)) return have_basic == Basic::integer;
    return have_basic == want_basic && have == want && want_basic == Basic::real;
}

bool conforms(const ptx::Operand& constant, Type wanted) {
    switch (constant.kind) {
        case ptx::Operand::Kind::integer: {
            Basic basic = basic_of(wanted);
            return basic == Basic::integer || basic == Basic::bits || basic == Basic::predicate || wanted == Type::u16x2 ||
                   wanted == Type::s16x2;
        }
        case ptx::Operand::Kind::f32: return wanted == Type::f32 || wanted == Type::f64 || wanted == Type::b32;
        case ptx::Operand::Kind::f64: return wanted == Type::f32 || wanted == Type::f64 || wanted == Type::b64;
        default: return false;
    }
}

bool special_conforms(ptx::SpecialReg special, Type wanted) {
    Basic basic = basic_of(wanted);
    if (basic != Basic::integer && basic != Basic::bits) return false;
    uint32_t bits = ptx::bits_of(wanted);
    switch (special) {
        case ptx::SpecialReg::clock64:
        case ptx::SpecialReg::globaltimer:
        case ptx::SpecialReg::pm64:
        case ptx::SpecialReg::current_graph_exec: return bits == 64;
        case ptx::SpecialReg::gridid: return bits >= 16;  // 64 bits since PTX 3.0; older texts read 32 or 16
        default: return bits == 32 || bits == 16;
    }
}

Type twice(Type type) {
    switch (type) {
        case Type::u8: return Type::u16;
        case Type::u16: return Type::u32;
        case Type::u32: return Type::u64;
        case Type::s8: return Type::s16;
        case Type::s16: return Type::s32;
        case Type::s32: return Type::s64;
        default: return Type::none;
    }
}

}  // namespace warpline::softgpu::passes
