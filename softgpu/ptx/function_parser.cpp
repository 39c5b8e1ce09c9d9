// Headers of functions, with the directives between parameters and body.
#include "softgpu/ptx/module_parser.h"

namespace warpline::softgpu::ptx {

bool ModuleParser::function(Linkage linkage) {
    Function function;
    function.is_entry = is_dotted("entry");
    function.linkage = linkage;
    advance();
    if (is_dotted("attribute") && !attribute_list(function.attributes)) return false;
    if (!function.is_entry && is('(') && !parameter_list(function.returns)) return false;
    function.at = token().at();
    if (!expect_identifier(function.name)) return false;
    if (is('(') && !parameter_list(function.params)) return false;
    if (!tuning(function)) return false;
    if (is('{')) {
        if (!body_extent(function)) return false;
    } else if (!expect(';')) {
        return false;
    }
    return add_function(std::move(function));
}

bool ModuleParser::body_extent(Function& function) {
    function.has_body = true;
    function.body_at = token().at();
    const char* begin = token().begin;
    std::string_view inside;
    if (function.linkage == Linkage::external)
        return error(DiagnosticKind::symbol, function.at, "an external function cannot have a body");
    if (!lexer().skip_block(inside)) {
        m_stop = true;
        return error("the body of function '" + std::string(function.name) + "' has no end, or is nested too deeply");
    }
    function.body_text = {begin, inside.size() + 2};
    advance();
    return true;
}

bool ModuleParser::tuning(Function& function) {
    while (token().kind == TokenKind::dotted) {
        std::string_view word = token().text;
        if (word == "pragma") {
            if (!function_pragma(function)) return false;
            continue;
        }
        advance();
        if (!tuning_word(function, word)) return false;
    }
    return true;
}

bool ModuleParser::function_pragma(Function& function) {
    do {
        advance();
        std::string_view text;
        if (!expect_string(text)) return false;
        function.pragmas.push_back(text);
    } while (is(','));
    return expect(';');
}

bool ModuleParser::tuning_word(Function& function, std::string_view word) {
    Tuning& tuning = function.tuning;
    if (word == "maxntid") return numbers(tuning.maxntid, tuning.maxntid_count);
    if (word == "reqntid") return numbers(tuning.reqntid, tuning.reqntid_count);
    if (word == "reqnctapercluster") return numbers(tuning.reqnctapercluster, tuning.reqnctapercluster_count);
    if (word == "minnctapersm") return expect_u32(tuning.minnctapersm);
    if (word == "maxnctapersm") return expect_u32(tuning.maxnctapersm);
    if (word == "maxnreg") return expect_u32(tuning.maxnreg);
    if (word == "maxclusterrank") return expect_u32(tuning.maxclusterrank);
    if (word == "abi_preserve") return expect_u32(tuning.abi_preserve);
    if (word == "abi_preserve_control") return expect_u32(tuning.abi_preserve_control);
    if (word == "explicitcluster") return tuning.explicitcluster = true;
    if (word == "blocksareclusters") return tuning.blocksareclusters = true;
    if (word == "noreturn") return tuning.noreturn = true;
    return error("unknown directive '." + std::string(word) + "' of a function");
}

bool ModuleParser::numbers(std::array<uint32_t, 3>& values, uint8_t& count) {
    values = {1, 1, 1};
    for (count = 0; count < 3;) {
        if (!expect_u32(values[count])) return false;
        count++;
        if (!is(',')) return true;
        advance();
    }
    return unexpected("no more than three numbers");
}

bool ModuleParser::add_function(Function function) {
    auto index = static_cast<uint32_t>(m_module.functions.size());
    SymbolRef here{SymbolRef::Kind::function, index};
    auto [place, added] = m_module.units[0].symbols.try_emplace(function.name, here);
    if (!added) {
        bool both_functions = place->second.kind == SymbolRef::Kind::function;
        const Function* earlier = both_functions ? &m_module.functions[place->second.index] : nullptr;
        if (!earlier || (earlier->has_body && function.has_body) || earlier->is_alias)
            return error(DiagnosticKind::symbol, function.at,
                         "duplicate definition of function '" + std::string(function.name) + "'");
        bool same_shape = earlier->is_entry == function.is_entry && earlier->params.size() == function.params.size() &&
                          earlier->returns.size() == function.returns.size();
        if (!same_shape)
            return error(DiagnosticKind::symbol, function.at,
                         "declarations of function '" + std::string(function.name) + "' do not agree");
        if (function.has_body) place->second = here;
    }
    m_module.items.push_back({ModuleItem::Kind::function, index});
    m_module.functions.push_back(std::move(function));
    return true;
}

}  // namespace warpline::softgpu::ptx
