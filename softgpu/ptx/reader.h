// What all parts of the parser share.
#pragma once

#include <string>
#include <string_view>

#include "softgpu/ptx/lexer.h"
#include "softgpu/ptx/parser.h"

namespace warpline::softgpu::ptx {

/// The value of a constant expression. PTX ISA, "Constant Expressions": .s64, .u64 or .f64; a lone 0f literal keeps its bits.
struct Constant {
    enum class Kind : uint8_t { s64, u64, f32, f64 };
    Kind kind = Kind::s64;
    uint64_t bits = 0;
    bool is_integer() const { return kind == Kind::s64 || kind == Kind::u64; }
    double as_double() const;
};

/// The double or float nearest to a value, as bits.
uint64_t bits_from_double(double value);
double double_from_bits(uint64_t bits);

/// A stream of tokens with one token of look-ahead, constant expressions, and messages. The base of both parsers.
class Reader {
public:
    Reader(std::string_view text, Location start, Diagnostics& diagnostics, uint32_t unit)
        : m_lexer(text, start), m_diagnostics(diagnostics), m_unit(unit) {
        advance();
    }

    const Token& token() const { return m_token; }
    void advance() { m_token = m_lexer.next(); }
    bool at_end() const { return m_token.kind == TokenKind::end; }
    bool is(char symbol) const { return m_token.kind == TokenKind::symbol && m_token.symbol == symbol; }
    bool is_identifier() const { return m_token.kind == TokenKind::identifier; }
    bool is_dotted(std::string_view word) const { return m_token.kind == TokenKind::dotted && m_token.text == word; }
    bool accept(char symbol) {
        if (!is(symbol)) return false;
        advance();
        return true;
    }
    /// True, or false with a message.
    bool expect(char symbol);
    bool expect_identifier(std::string_view& name);
    bool expect_string(std::string_view& text);
    /// A plain integer literal that fits 32 bits.
    bool expect_u32(uint32_t& value);

    /// A constant expression. `floor` is for the recursion.
    bool constant(Constant& value) { return ternary(value); }
    bool constant_integer(uint64_t& value);

    /// Records a message and returns false, so that a caller can `return error(...)`.
    bool error(DiagnosticKind kind, Location at, std::string text);
    bool error(std::string text) { return error(DiagnosticKind::syntax, m_token.at(), std::move(text)); }
    /// "syntax error near '…'"
    bool unexpected(std::string_view wanted);
    size_t error_count() const { return m_error_count; }

    /// After an error: passes tokens up to and including the next ';', or to a brace.
    void resynchronise();

    /// Counts nesting; false with a message when there is too much of it. Leave() must follow a true.
    bool enter();
    void leave() { m_depth--; }

    Lexer& lexer() { return m_lexer; }
    uint32_t unit() const { return m_unit; }

private:
    bool ternary(Constant& value);
    bool binary(Constant& value, int floor);
    bool unary(Constant& value);
    bool primary(Constant& value);
    bool parenthesis(Constant& value);
    bool apply(Constant& left, const Constant& right, char op, Location at);

    Lexer m_lexer;
    Token m_token;
    Diagnostics& m_diagnostics;
    uint32_t m_unit;
    size_t m_error_count = 0;
    size_t m_depth = 0;
};

/// The value of a literal token. False if it does not fit 64 bits.
bool literal_value(const Token& token, Constant& value);

}  // namespace warpline::softgpu::ptx
