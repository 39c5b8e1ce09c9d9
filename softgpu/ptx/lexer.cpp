// Cuts one token after the other.
#include "softgpu/ptx/lexer.h"

#include <array>
#include <cstring>

#include "softgpu/ptx/parser.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace warpline::softgpu::ptx {
namespace {

enum : uint8_t { k_space = 1, k_word = 2, k_digit = 4, k_start = 8, k_hex = 16 };

constexpr std::array<uint8_t, 256> make_classes() {
    std::array<uint8_t, 256> classes{};
    for (int c = 'a'; c <= 'z'; c++) classes[c] = classes[c - 'a' + 'A'] = k_word | k_start;
    for (int c = '0'; c <= '9'; c++) classes[c] = k_word | k_digit | k_hex;
    for (int c = 'a'; c <= 'f'; c++) {
        classes[c] |= k_hex;
        classes[c - 'a' + 'A'] |= k_hex;
    }
    classes['_'] = classes['$'] = k_word | k_start;
    classes['%'] = k_start;
    for (char c : {' ', '\t', '\r', '\n', '\f', '\v'}) classes[static_cast<uint8_t>(c)] = k_space;
    return classes;
}
constexpr auto k_classes = make_classes();

inline bool is(char c, uint8_t set) { return (k_classes[static_cast<uint8_t>(c)] & set) != 0; }

}  // namespace

Lexer::Lexer(std::string_view text, Location start)
    : m_at(text.data()),
      m_end(text.data() + text.size()),
      m_line_start(text.data() - (start.column ? start.column - 1 : 0)),
      m_line(start.line) {}

bool Lexer::skip_comment() {
    if (m_at[1] == '/') {
        const void* end = std::memchr(m_at, '\n', static_cast<size_t>(m_end - m_at));
        m_at = end ? static_cast<const char*>(end) : m_end;
        return true;
    }
    for (m_at += 2; m_end - m_at >= 2; m_at++) {
        if (m_at[0] == '*' && m_at[1] == '/') {
            m_at += 2;
            return true;
        }
        if (*m_at == '\n') newline(m_at + 1);
    }
    m_at = m_end;
    return false;
}

// White space, comments, and the lines that a C preprocessor leaves behind (# 1 "file"). False: an unfinished comment.
bool Lexer::skip_space(Token& token) {
    while (m_at < m_end) {
        char c = *m_at;
        if (is(c, k_space)) {
            m_at++;
            if (c == '\n') newline(m_at);
        } else if (c == '/' && m_end - m_at >= 2 && (m_at[1] == '/' || m_at[1] == '*')) {
            token.line = m_line;
            token.column = static_cast<uint32_t>(m_at - m_line_start) + 1;
            if (!skip_comment()) return false;
        } else if (c == '#' && m_at == m_line_start) {
            const void* end = std::memchr(m_at, '\n', static_cast<size_t>(m_end - m_at));
            m_at = end ? static_cast<const char*>(end) : m_end;
        } else {
            return true;
        }
    }
    return true;
}

Token Lexer::next() {
    Token token;
    if (!skip_space(token)) {
        token.kind = TokenKind::bad;
        token.text = "unfinished comment";
        token.begin = m_at;
        return token;
    }
    token.begin = m_at;
    token.line = m_line;
    token.column = static_cast<uint32_t>(m_at - m_line_start) + 1;
    if (m_at >= m_end) return token;
    char c = *m_at;
    if (is(c, k_start) && (c != '%' || (m_end - m_at >= 2 && is(m_at[1], k_word)))) {
        do m_at++;
        while (m_at < m_end && is(*m_at, k_word));
        token.kind = TokenKind::identifier;
        token.text = {token.begin, static_cast<size_t>(m_at - token.begin)};
    } else if (c == '.') {
        dotted(token);
    } else if (is(c, k_digit)) {
        number(token);
    } else if (c == '"') {
        string(token);
    } else {
        symbol(token);
    }
    return token;
}

void Lexer::dotted(Token& token) {
    const char* at = m_at + 1;
    while (at < m_end && (is(*at, k_word) || (*at == ':' && m_end - at >= 3 && at[1] == ':' && is(at[2], k_word)))) {
        at += *at == ':' ? 2 : 1;
    }
    token.text = {m_at + 1, static_cast<size_t>(at - m_at - 1)};
    token.kind = token.text.empty() ? TokenKind::bad : TokenKind::dotted;
    if (token.text.empty()) token.text = "a dot without a word";
    m_at = at;
}

// PTX ISA, "Constants". A real may lack digits on one side of its point, but one that begins with the point arrives as
// `dotted`.
void Lexer::number(Token& token) {
    const char* at = m_at;
    auto run = [&](uint8_t set) {
        const char* from = at;
        while (at < m_end && is(*at, set)) at++;
        return static_cast<size_t>(at - from);
    };
    char marker = m_end - at >= 2 && *at == '0' ? static_cast<char>(at[1] | 0x20) : 0;
    bool sound = true;
    token.kind = TokenKind::integer;
    if (marker == 'f' || marker == 'd') {
        token.kind = TokenKind::real;
        at += 2;
        sound = run(k_hex) == (marker == 'f' ? 8 : 16);
    } else if (marker == 'x' || marker == 'b') {
        at += 2;
        sound = run(k_hex) != 0;
    } else {
        run(k_digit);
        if (at < m_end && *at == '.') {
            token.kind = TokenKind::real;
            at++;
            run(k_digit);
        }
        if (at < m_end && (*at == 'e' || *at == 'E')) {
            token.kind = TokenKind::real;
            at++;
            if (at < m_end && (*at == '+' || *at == '-')) at++;
            sound = run(k_digit) != 0;
        }
    }
    if (sound && token.kind == TokenKind::integer && at < m_end && *at == 'U') at++;
    if (run(k_word) != 0) sound = false;
    token.text = {m_at, static_cast<size_t>(at - m_at)};
    if (!sound) token.kind = TokenKind::bad;
    m_at = at;
}

void Lexer::string(Token& token) {
    const char* at = m_at + 1;
    while (at < m_end && *at != '"' && *at != '\n') at += *at == '\\' && m_end - at >= 2 && at[1] != '\n' ? 2 : 1;
    bool closed = at < m_end && *at == '"';
    token.text = closed ? std::string_view(m_at + 1, static_cast<size_t>(at - m_at - 1)) : "unfinished string";
    token.kind = closed ? TokenKind::string : TokenKind::bad;
    m_at = closed ? at + 1 : at;
}

void Lexer::symbol(Token& token) {
    char c = *m_at, d = m_end - m_at >= 2 ? m_at[1] : '\0';
    char two = 0;
    if (d == '=') two = c == '<' ? 'L' : c == '>' ? 'G' : c == '=' ? 'e' : c == '!' ? 'n' : '\0';
    if (c == d) two = c == '<' ? 'l' : c == '>' ? 'r' : c == '&' ? 'a' : c == '|' ? 'o' : two;
    bool known = c > ' ' && c < 127 && c != '`' && c != '\'' && c != '\\' && c != '#';
    token.kind = known ? TokenKind::symbol : TokenKind::bad;
    token.symbol = two ? two : c;
    token.text = {m_at, size_t{two ? 2u : 1u}};
    m_at += token.text.size();
}

bool Lexer::next_is(char c) const {
    const char* at = m_at;
    while (at < m_end && is(*at, k_space)) at++;
    return at < m_end && *at == c && (m_end - at < 2 || at[1] != c);
}

/// Passes text without braces, quotes and slashes, sixteen characters at a time: most of a body. Counts its lines.
void Lexer::skip_plain() {
#if defined(__SSE2__)
    for (; m_end - m_at >= 16; m_at += 16) {
        const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(m_at));
        auto where = [&](char c) { return _mm_cmpeq_epi8(text, _mm_set1_epi8(c)); };
        const __m128i special = _mm_or_si128(_mm_or_si128(where('{'), where('}')), _mm_or_si128(where('"'), where('/')));
        auto lines = static_cast<uint32_t>(_mm_movemask_epi8(where('\n')));
        const auto stop = static_cast<uint32_t>(_mm_movemask_epi8(special));
        const uint32_t passed = stop != 0 ? static_cast<uint32_t>(__builtin_ctz(stop)) : 16;
        lines &= (1u << passed) - 1;
        if (lines != 0) {
            m_line += static_cast<uint32_t>(__builtin_popcount(lines));
            m_line_start = m_at + (32 - __builtin_clz(lines));
        }
        if (stop != 0) {
            m_at += passed;
            return;
        }
    }
#endif
}

bool Lexer::skip_block(std::string_view& inside) {
    const char* begin = m_at;
    size_t depth = 1;
    while (true) {
        skip_plain();
        if (m_at >= m_end) return false;
        switch (*m_at) {
            case '\n': newline(m_at + 1); break;
            case '{':
                if (++depth > Limits::k_nesting) return false;
                break;
            case '}':
                if (--depth == 0) {
                    inside = {begin, static_cast<size_t>(m_at - begin)};
                    m_at++;
                    return true;
                }
                break;
            case '"': {
                Token token;
                string(token);
                continue;
            }
            case '/':
                if (m_end - m_at >= 2 && (m_at[1] == '/' || m_at[1] == '*')) {
                    if (!skip_comment()) return false;
                    continue;
                }
                break;
            default: break;
        }
        m_at++;
    }
}

}  // namespace warpline::softgpu::ptx
