// White space, comments, words and marks of PTX text.
#include "cuda/image/ptx_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace warpline::cuda::image {

namespace {

enum Kind : uint8_t { k_mark, k_space, k_word };

constexpr std::array<Kind, 256> make_kinds() {
    std::array<Kind, 256> kinds{};
    for (unsigned c = 0; c < 256; c++) {
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || c == '_' || c == '$' || c == '%' || c == '.') kinds[c] = k_word;
        if (c <= ' ') kinds[c] = k_space;
    }
    return kinds;
}
constexpr std::array<Kind, 256> k_kinds = make_kinds();

Kind kind_of(char c) { return k_kinds[static_cast<unsigned char>(c)]; }

}  // namespace

void PtxTokens::advance() {
    const size_t size = m_text.size();
    size_t at = m_position;
    while (at < size) {
        if (kind_of(m_text[at]) == k_space) {
            at++;
            continue;
        }
        if (m_text[at] != '/' || at + 1 == size) break;
        if (m_text[at + 1] == '/') {
            at = std::min(m_text.find('\n', at), size);
        } else if (m_text[at + 1] == '*') {
            size_t end = m_text.find("*/", at + 2);
            at = end == std::string_view::npos ? size : end + 2;
        } else {
            break;
        }
    }
    size_t start = at;
    if (at < size) {
        if (m_text[at] == '"') {
            at = std::min(m_text.find('"', at + 1), size - 1) + 1;
        } else if (kind_of(m_text[at]) == k_word) {
            while (at < size && kind_of(m_text[at]) == k_word) at++;
        } else {
            at++;
        }
    }
    m_token = m_text.substr(start, at - start);
    m_position = at;
}

uint32_t PtxTokens::line() const {
    size_t start = m_position - m_token.size();
    return 1 + static_cast<uint32_t>(std::count(m_text.begin(), m_text.begin() + static_cast<ptrdiff_t>(start), '\n'));
}

bool parse_ptx_number(std::string_view token, uint64_t& number) {
    if (!token.empty() && (token.back() == 'U' || token.back() == 'u')) token.remove_suffix(1);
    int base = 10;
    if (token.size() > 1 && token[0] == '0') {
        char second = token[1];
        base = second == 'x' || second == 'X' ? 16 : second == 'b' || second == 'B' ? 2 : 8;
        token.remove_prefix(base == 8 ? 1 : 2);
    }
    const char* end = token.data() + token.size();
    auto [stop, problem] = std::from_chars(token.data(), end, number, base);
    return problem == std::errc() && stop == end;
}

}  // namespace warpline::cuda::image
