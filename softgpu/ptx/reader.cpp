// Errors, expectations and the words that all parts of the parser read.
#include "softgpu/ptx/reader.h"

namespace warpline::softgpu::ptx {

bool Reader::error(DiagnosticKind kind, Location at, std::string text) {
    m_error_count++;
    if (m_diagnostics.size() < Limits::k_diagnostics) m_diagnostics.push_back({kind, at, std::move(text), m_unit});
    return false;
}

bool Reader::unexpected(std::string_view wanted) {
    if (m_token.kind == TokenKind::end) return error("unexpected end of the text, wanted " + std::string(wanted));
    if (m_token.kind == TokenKind::bad && m_token.text.starts_with("unfinished")) return error(std::string(m_token.text));
    std::string_view near(m_token.begin, std::min<size_t>(static_cast<size_t>(m_lexer.position() - m_token.begin), 40));
    return error("syntax error near '" + std::string(near) + "', wanted " + std::string(wanted));
}

bool Reader::expect(char symbol) {
    if (accept(symbol)) return true;
    return unexpected(std::string{'\'', symbol, '\''});
}

bool Reader::expect_identifier(std::string_view& name) {
    if (!is_identifier()) return unexpected("a name");
    name = m_token.text;
    advance();
    return true;
}

bool Reader::expect_string(std::string_view& text) {
    if (m_token.kind != TokenKind::string) return unexpected("a string");
    text = m_token.text;
    advance();
    return true;
}

bool Reader::expect_u32(uint32_t& value) {
    Constant constant;
    if (m_token.kind != TokenKind::integer) return unexpected("a number");
    if (!literal_value(m_token, constant) || constant.bits > UINT32_MAX)
        return error("number '" + std::string(m_token.text) + "' is out of range");
    value = static_cast<uint32_t>(constant.bits);
    advance();
    return true;
}

bool Reader::constant_integer(uint64_t& value) {
    Location at = m_token.at();
    Constant result;
    if (!constant(result)) return false;
    if (!result.is_integer()) return error(DiagnosticKind::type, at, "an integer is wanted here");
    value = result.bits;
    return true;
}

void Reader::resynchronise() {
    while (!at_end() && !is('{') && !is('}')) {
        if (accept(';')) return;
        advance();
    }
}

bool Reader::enter() {
    if (++m_depth <= Limits::k_nesting) return true;
    m_depth--;
    return error(DiagnosticKind::limit, m_token.at(), "nested too deeply");
}

}  // namespace warpline::softgpu::ptx
