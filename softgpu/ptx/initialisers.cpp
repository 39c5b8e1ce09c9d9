// Initialisers of variables. PTX ISA, "Initializers": numbers, nested braces that may leave out trailing elements, names of
// variables and functions with an offset, generic(name), and mask(name), which is one byte of an address.
#include <bit>
#include <cstring>

#include "softgpu/ptx/declarations.h"

namespace warpline::softgpu::ptx {

bool DeclarationReader::initialiser(Variable& variable) {
    if (variable.linkage == Linkage::external || (variable.space != Space::global && variable.space != Space::constant))
        return error(DiagnosticKind::type, variable.at, "no initial value is allowed for '" + std::string(variable.name) + "'");
    variable.has_init = true;
    if (variable.type == Type::texref || variable.type == Type::samplerref || variable.type == Type::surfref)
        return opaque_initialiser(variable);
    if (variable.type == Type::f16 || variable.type == Type::f16x2)
        return error(DiagnosticKind::type, token().at(), "no initial value is allowed for this type");
    m_init_offset = 0;
    uint64_t count = 0;
    if (!init_level(variable, 0, count)) return false;
    if (!variable.is_array || variable.dims[0] != 0) return true;
    variable.dims[0] = count;  // `[]`: as many as were given
    if (!finish_size(variable)) return false;
    return variable.init.size() <= variable.size_bytes ||
           error(DiagnosticKind::type, variable.at, "initial value type mismatch");
}

// { field = value, … }, or braces of those for arrays; kept as text, because only the printer and the texture code care.
bool DeclarationReader::opaque_initialiser(Variable& variable) {
    const char* begin = token().begin;
    const char* end = begin;
    size_t depth = 0;
    while (!at_end() && (depth > 0 || (!is(',') && !is(';')))) {
        if (is('{')) depth++;
        if (is('}') && depth-- == 0) break;
        end = lexer().position();
        advance();
    }
    if (begin == end) return unexpected("an initial value");
    variable.texture_fields.emplace_back(begin, static_cast<size_t>(end - begin));
    return true;
}

// Level k of the braces is dimension k; the vector width is one more level. Values go one behind the other, as ptxas puts them:
// a row that was cut short does not leave a gap.
bool DeclarationReader::init_level(Variable& variable, size_t level, uint64_t& count) {
    size_t array_levels = variable.dims.size();
    size_t levels = array_levels + (variable.vector > 1 ? 1 : 0);
    if (level == levels) {
        if (!init_element(variable, m_init_offset)) return false;
        m_init_offset += bytes_of(variable.type);
        return true;
    }
    if (!is('{')) return error(DiagnosticKind::type, token().at(), "initial value type mismatch");
    advance();
    bool in_vector = level == array_levels;
    uint64_t limit = in_vector ? variable.vector : variable.dims[level];
    bool open = level == 0 && !in_vector && limit == 0;
    if (!is('}')) {
        do {
            if (!open && count >= limit)
                return error(DiagnosticKind::type, token().at(), "greater number of elements in array initializer");
            uint64_t inner = 0;
            if (!init_level(variable, level + 1, inner)) return false;
            count++;
        } while (accept(','));
    }
    if (in_vector && count != variable.vector)
        return error(DiagnosticKind::type, token().at(), "incorrect number of elements in vector initializer");
    return expect('}');
}

bool DeclarationReader::reserve_init(Variable& variable, uint64_t offset, uint64_t size) {
    uint64_t end = offset + size, have = variable.init.size();
    if (end <= have) return true;
    // The bound is on all initialisers of the text together.
    if (end > Limits::k_init_bytes || (m_init_bytes += end - have) > Limits::k_init_bytes)
        return error(DiagnosticKind::limit, token().at(), "initial value is too large");
    variable.init.resize(end);
    return true;
}

void DeclarationReader::put(Variable& variable, uint64_t offset, uint64_t size, uint64_t bits) {
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(variable.init.data() + offset, &bits, std::min<uint64_t>(size, 8));
}

bool DeclarationReader::init_element(Variable& variable, uint64_t offset) {
    if (is_identifier() && token().text != "WARP_SZ") return init_address(variable, offset, 0, false);
    if (token().kind == TokenKind::integer && lexer().next_is('(')) return init_masked(variable, offset);
    return init_number(variable, offset);
}

bool DeclarationReader::init_number(Variable& variable, uint64_t offset) {
    Location at = token().at();
    Constant value;
    uint32_t size = bytes_of(variable.type);
    if (!constant(value) || !reserve_init(variable, offset, size)) return false;
    bool wants_float = variable.type == Type::f32 || variable.type == Type::f64;
    bool takes_float = wants_float || variable.type == Type::b32 || variable.type == Type::b64;
    if (value.is_integer() ? wants_float : !takes_float) return error(DiagnosticKind::type, at, "initial value type mismatch");
    uint64_t bits = value.bits;  // of a 0f literal for a 64-bit variable too: ptxas extends them with zeros
    if (!value.is_integer() && size == 4 && value.kind == Constant::Kind::f64)
        bits = std::bit_cast<uint32_t>(static_cast<float>(value.as_double()));
    put(variable, offset, size, bits);
    if (size == 16 && value.kind == Constant::Kind::s64 && static_cast<int64_t>(bits) < 0)
        std::memset(variable.init.data() + offset + 8, 0xff, 8);
    return true;
}

// 0xFF00(name): the byte of the address that the mask picks.
bool DeclarationReader::init_masked(Variable& variable, uint64_t offset) {
    Location at = token().at();
    Constant mask;
    if (!literal_value(token(), mask)) return error("mask is out of range");
    advance();
    int shift = mask.bits == 0 ? 0 : std::countr_zero(mask.bits);
    if (shift % 8 != 0 || mask.bits >> shift != 0xff || bytes_of(variable.type) != 1)
        return error(DiagnosticKind::type, at, "a mask of an address must select one byte");
    return expect('(') && init_address(variable, offset, static_cast<uint8_t>(shift), true) && expect(')');
}

bool DeclarationReader::init_address(Variable& variable, uint64_t offset, uint8_t shift, bool masked) {
    InitAddress address;
    address.at = token().at();
    address.offset = static_cast<uint32_t>(offset);
    address.shift = shift;
    address.size = static_cast<uint8_t>(masked ? 1 : bytes_of(variable.type));
    if (!masked && address.size != 8 && address.size != 4)
        return error(DiagnosticKind::type, address.at, "an address does not fit the variable");
    if (token().text == "generic" && lexer().next_is('(')) {
        address.generic = true;
        advance();
        advance();
    }
    if (!expect_identifier(address.name)) return false;
    if (address.generic && !expect(')')) return false;
    if (accept('+')) {
        uint64_t addend = 0;
        if (!constant_integer(addend)) return false;
        address.addend = static_cast<int64_t>(addend);
    }
    if (!reserve_init(variable, offset, address.size)) return false;
    variable.init_addresses.push_back(address);
    return true;
}

}  // namespace warpline::softgpu::ptx
