// The tokens of PTX text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::ptx {

enum class TokenKind : uint8_t {
    end,
    identifier,  ///< letters, digits, _ $, or % in front
    dotted,      ///< a word after a dot, with ::parts; text is without the dot
    integer,     ///< 12, 0x1f, 017, 0b11, each with an optional U
    real,        ///< 1.5, 1e3, 0f3F800000, 0d3FF0000000000000
    string,      ///< text is without the quotes
    symbol,      ///< one punctuation character, or two of << >> <= >= == != && ||: `symbol` says which
    bad,         ///< a byte that starts nothing, or something unfinished; text says what
};

struct Token {
    TokenKind kind = TokenKind::end;
    char symbol = 0;  ///< of a symbol: its character; two-character ones: l r (shifts), L G (<= >=), e n (== !=), a o (&& ||)
    std::string_view text;
    const char* begin = nullptr;
    uint32_t line = 0;
    uint32_t column = 0;
    Location at() const { return {line, column}; }
};

/// Cuts PTX text into tokens. Works in place: tokens point into the text.
class Lexer {
public:
    Lexer(std::string_view text, Location start);

    Token next();
    /// True if the next character after white space is `c` and is not doubled ("::" is not ':').
    bool next_is(char c) const;
    /// Just behind an opening brace: passes everything up to its closing brace, comments and strings respected, and returns the
    /// text between the two. False at the end of the text, or beyond the permitted nesting.
    bool skip_block(std::string_view& inside);
    /// Where the token that next() returned last ends.
    const char* position() const { return m_at; }

private:
    bool skip_space(Token& token);
    void newline(const char* behind) {
        m_line++;
        m_line_start = behind;
    }
    void number(Token& token);
    void dotted(Token& token);
    void string(Token& token);
    void symbol(Token& token);
    bool skip_comment();
    void skip_plain();

    const char* m_at;
    const char* m_end;
    const char* m_line_start;
    uint32_t m_line;
};

}  // namespace warpline::softgpu::ptx
