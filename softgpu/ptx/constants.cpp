// Constant expressions. PTX ISA, "Constants" and "Constant Expressions": 64-bit integers, signed unless a U or their size makes
// them unsigned, and 64-bit floating point.
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "softgpu/ptx/reader.h"

namespace warpline::softgpu::ptx {
namespace {

// The operators by strength, as in C. The characters are those of Token::symbol.
int strength_of(const Token& token) {
    if (token.kind != TokenKind::symbol) return 0;
    switch (token.symbol) {
        case 'o': return 1;
        case 'a': return 2;
        case '|': return 3;
        case '^': return 4;
        case '&': return 5;
        case 'e':
        case 'n': return 6;
        case '<':
        case '>':
        case 'L':
        case 'G': return 7;
        case 'l':
        case 'r': return 8;
        case '+':
        case '-': return 9;
        case '*':
        case '/':
        case '%': return 10;
        default: return 0;
    }
}

template <typename T>
bool compare(T a, T b, char op) {
    switch (op) {
        case 'e': return a == b;
        case 'n': return a != b;
        case '<': return a < b;
        case '>': return a > b;
        case 'L': return a <= b;
        default: return a >= b;
    }
}

bool is_comparison(char op) { return op == 'e' || op == 'n' || op == '<' || op == '>' || op == 'L' || op == 'G'; }

bool float_operation(double a, double b, char op, Constant& out) {
    if (is_comparison(op)) {
        out = {Constant::Kind::s64, compare(a, b, op)};
        return true;
    }
    double value = 0;
    switch (op) {
        case '+': value = a + b; break;
        case '-': value = a - b; break;
        case '*': value = a * b; break;
        case '/': value = a / b; break;
        default: return false;
    }
    out = {Constant::Kind::f64, bits_from_double(value)};
    return true;
}

uint64_t divide(uint64_t a, uint64_t b, bool is_signed, bool remainder) {
    if (!is_signed) return remainder ? a % b : a / b;
    auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
    if (y == -1) return remainder ? 0 : 0 - a;  // INT64_MIN / -1 wraps
    return static_cast<uint64_t>(remainder ? x % y : x / y);
}

uint64_t integer_operation(uint64_t a, uint64_t b, char op, bool is_signed) {
    switch (op) {
        case '+': return a + b;
        case '-': return a - b;
        case '*': return a * b;
        case '/':
        case '%': return divide(a, b, is_signed, op == '%');
        case '&': return a & b;
        case '|': return a | b;
        case '^': return a ^ b;
        case 'a': return a != 0 && b != 0;
        case 'o': return a != 0 || b != 0;
        case 'l': return b < 64 ? a << b : 0;
        case 'r':
            if (is_signed) return static_cast<uint64_t>(static_cast<int64_t>(a) >> (b < 64 ? b : 63));
            return b < 64 ? a >> b : 0;
        default: return is_signed ? compare(static_cast<int64_t>(a), static_cast<int64_t>(b), op) : compare(a, b, op);
    }
}

bool parse_integer(std::string_view text, Constant& value) {
    bool is_unsigned = !text.empty() && text.back() == 'U';
    if (is_unsigned) text.remove_suffix(1);
    int base = 10;
    if (text.size() > 1 && text[0] == '0') {
        char marker = static_cast<char>(text[1] | 0x20);
        base = marker == 'x' ? 16 : marker == 'b' ? 2 : 8;
        text.remove_prefix(base == 8 ? 1 : 2);
    }
    uint64_t bits = 0;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), bits, base);
    if (status != std::errc() || end != text.data() + text.size()) return false;
    is_unsigned = is_unsigned || bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    value = {is_unsigned ? Constant::Kind::u64 : Constant::Kind::s64, bits};
    return true;
}

bool parse_real(std::string_view text, Constant& value) {
    if (text.size() > 2 && text[0] == '0' && ((text[1] | 0x20) == 'f' || (text[1] | 0x20) == 'd')) {
        bool single = (text[1] | 0x20) == 'f';
        uint64_t bits = 0;
        std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
        value = {single ? Constant::Kind::f32 : Constant::Kind::f64, bits};
        return true;
    }
    double number = 0;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status == std::errc::result_out_of_range) {
        // Too large or too small: as strtod, which tells which of the two.
        size_t exponent = text.find_first_of("eE");
        bool tiny = exponent != std::string_view::npos && exponent + 1 < text.size() && text[exponent + 1] == '-';
        number = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    } else if (status != std::errc() || end != text.data() + text.size()) {
        return false;
    }
    value = {Constant::Kind::f64, bits_from_double(number)};
    return true;
}

}  // namespace

uint64_t bits_from_double(double value) { return std::bit_cast<uint64_t>(value); }
double double_from_bits(uint64_t bits) { return std::bit_cast<double>(bits); }

double Constant::as_double() const {
    switch (kind) {
        case Kind::s64: return static_cast<double>(static_cast<int64_t>(bits));
        case Kind::u64: return static_cast<double>(bits);
        case Kind::f32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
        case Kind::f64: return std::bit_cast<double>(bits);
    }
    return 0;
}

bool literal_value(const Token& token, Constant& value) {
    return token.kind == TokenKind::integer ? parse_integer(token.text, value) : parse_real(token.text, value);
}

bool Reader::ternary(Constant& value) {
    if (!enter()) return false;
    bool sound = binary(value, 1);
    if (sound && is('?')) {
        advance();
        bool chosen = value.is_integer() ? value.bits != 0 : value.as_double() != 0;
        Constant yes, no;
        sound = ternary(yes) && expect(':') && ternary(no);
        value = chosen ? yes : no;
    }
    leave();
    return sound;
}

bool Reader::binary(Constant& value, int floor) {
    if (!unary(value)) return false;
    for (int strength = strength_of(m_token); strength >= floor && strength > 0; strength = strength_of(m_token)) {
        char op = m_token.symbol;
        Location at = m_token.at();
        advance();
        Constant right;
        // The recursion goes one level per strength, ten at most; deeper nesting passes through enter().
        if (!binary(right, strength + 1) || !apply(value, right, op, at)) return false;
    }
    return true;
}

bool Reader::apply(Constant& left, const Constant& right, char op, Location at) {
    if (!left.is_integer() || !right.is_integer()) {
        if (!float_operation(left.as_double(), right.as_double(), op, left))
            return error(DiagnosticKind::type, at, "operator is not for floating-point constants");
        return true;
    }
    if ((op == '/' || op == '%') && right.bits == 0) return error(DiagnosticKind::type, at, "division by zero in a constant");
    bool shift = op == 'l' || op == 'r';
    bool is_signed = left.kind == Constant::Kind::s64 && (shift || right.kind == Constant::Kind::s64);
    uint64_t bits = integer_operation(left.bits, right.bits, op, is_signed);
    bool truth = is_comparison(op) || op == 'a' || op == 'o';
    left = {is_signed || truth ? Constant::Kind::s64 : Constant::Kind::u64, bits};
    return true;
}

bool Reader::unary(Constant& value) {
    if (m_token.kind != TokenKind::symbol) return primary(value);
    char op = m_token.symbol;
    if (op != '-' && op != '+' && op != '~' && op != '!') return primary(value);
    Location at = m_token.at();
    advance();
    if (!enter()) return false;
    bool sound = unary(value);
    leave();
    if (!sound || op == '+') return sound;
    if (value.is_integer()) {
        if (op == '!') value = {Constant::Kind::s64, value.bits == 0};
        if (op == '~') value.bits = ~value.bits;
        if (op == '-') value.bits = 0 - value.bits;
        return true;
    }
    if (op != '-') return error(DiagnosticKind::type, at, "operator is not for floating-point constants");
    if (value.kind == Constant::Kind::f32)
        value.bits ^= 0x80000000u;
    else
        value.bits ^= uint64_t{1} << 63;
    return true;
}

bool Reader::parenthesis(Constant& value) {
    advance();
    if (is_dotted("s64") || is_dotted("u64")) {
        Constant::Kind kind = is_dotted("s64") ? Constant::Kind::s64 : Constant::Kind::u64;
        advance();
        if (!expect(')') || !enter()) return false;
        Location at = m_token.at();
        bool sound = unary(value);
        leave();
        if (!sound) return false;
        if (!value.is_integer()) return error(DiagnosticKind::type, at, "an integer is wanted here");
        value.kind = kind;
        return true;
    }
    return ternary(value) && expect(')');
}

bool Reader::primary(Constant& value) {
    if (is('(')) return parenthesis(value);
    if (is_identifier() && m_token.text == "WARP_SZ") {
        value = {Constant::Kind::s64, 32};
        advance();
        return true;
    }
    Token token = m_token;
    bool leading_point = token.kind == TokenKind::dotted && token.text[0] >= '0' && token.text[0] <= '9';
    if (leading_point) {
        token.kind = TokenKind::real;
        token.text = {token.begin, static_cast<size_t>(m_lexer.position() - token.begin)};
    }
    if (token.kind != TokenKind::integer && token.kind != TokenKind::real) return unexpected("a constant");
    if (!literal_value(token, value)) return error("constant '" + std::string(token.text) + "' is out of range");
    advance();
    return true;
}

}  // namespace warpline::softgpu::ptx
