// PTX text in words, for what needs no parser.
#pragma once

#include <cstdint>
#include <string_view>

namespace warpline::cuda::image {

/// Splits PTX text into words (identifiers, directives, numbers) and single punctuation marks, without comments and white
/// space. Views into the text; an empty view is the end. Strings come as one token with their quotes.
class PtxTokens {
public:
    explicit PtxTokens(std::string_view text) : m_text(text) { advance(); }

    /// The token ahead.
    std::string_view peek() const { return m_token; }
    std::string_view next() {
        std::string_view token = m_token;
        advance();
        return token;
    }
    bool accept(std::string_view token) {
        if (m_token != token) return false;
        advance();
        return true;
    }
    bool at_end() const { return m_token.empty(); }

    /// The line of the token ahead, counted from 1. Walks the text: for messages.
    uint32_t line() const;

    /// Leaves everything up to the brace that closes the one just taken; calls `directive` for each word beginning with a dot
    /// that begins a statement. False if the text ends before.
    template <typename F>
    bool skip_block(F directive) {
        size_t depth = 1;
        bool statement_begins = true;
        while (!at_end()) {
            std::string_view token = m_token;
            if (statement_begins && token.front() == '.') {
                if (directive(token)) continue;  // it has consumed the statement
            }
            advance();
            statement_begins = token == ";" || token == "{" || token == "}" || token == ":";
            if (token == "{") depth++;
            if (token == "}" && --depth == 0) return true;
        }
        return false;
    }

private:
    void advance();

    std::string_view m_text;
    size_t m_position = 0;
    std::string_view m_token;
};

/// The number of a token: decimal, hexadecimal, octal or binary, with or without the U that PTX allows. False if it is none, or
/// needs more than 64 bits.
bool parse_ptx_number(std::string_view token, uint64_t& number);

}  // namespace warpline::cuda::image
