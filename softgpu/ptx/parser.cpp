// Parses a text, and says what is wrong with it.
#include "softgpu/ptx/parser.h"

#include <algorithm>
#include <utility>

#include "softgpu/ptx/body_parser.h"
#include "softgpu/ptx/module_parser.h"

namespace warpline::softgpu::ptx {
namespace {

// The CUresult of a refused text: what a driver says first wins.
int result_of(const Diagnostics& diagnostics) {
    auto any = [&](DiagnosticKind kind) {
        return std::any_of(diagnostics.begin(), diagnostics.end(), [kind](const Diagnostic& d) { return d.kind == kind; });
    };
    if (any(DiagnosticKind::version)) return 222;  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    if (any(DiagnosticKind::target)) return 209;   // CUDA_ERROR_NO_BINARY_FOR_GPU
    return 218;                                    // CUDA_ERROR_INVALID_PTX
}

}  // namespace

ParseResult parse(std::string_view text, const ParseOptions& options) {
    ParseResult result;
    while (!text.empty() && text.back() == '\0') text.remove_suffix(1);  // images are C strings
    if (text.size() > Limits::k_text_bytes) {
        result.diagnostics.push_back({DiagnosticKind::limit, {1, 1}, "the text is too large", 0});
        result.cu_result = 218;
        return result;
    }
    auto module = std::make_unique<Module>();
    Unit& unit = module->units.emplace_back();
    unit.text = std::make_shared<const std::string>(text);
    unit.name = options.unit_name;
    if (ModuleParser(*module, result.diagnostics).run())
        result.module = std::move(module);
    else
        result.cu_result = result_of(result.diagnostics);
    return result;
}

bool parse_body(const Module& module, Function& function, Diagnostics& diagnostics) {
    if (function.body_parsed || !function.has_body) return function.body != nullptr;
    function.body_parsed = true;
    auto body = std::make_unique<Body>();
    if (BodyParser(module, function, *body, diagnostics).run()) function.body = std::move(body);
    return function.body != nullptr;
}

bool parse_all_bodies(Module& module, Diagnostics& diagnostics) {
    bool sound = true;
    for (Function& function : module.functions)
        if (function.has_body && !parse_body(module, function, diagnostics)) sound = false;
    return sound;
}

SymbolRef Module::find(std::string_view name, uint32_t unit) const {
    if (unit >= units.size()) return {};
    auto found = units[unit].symbols.find(name);
    return found == units[unit].symbols.end() ? SymbolRef{} : found->second;
}

// By the name that the whole module knows: after linking, that is not always the spelling of one of the texts.
const Function* Module::function(std::string_view name) const {
    const Function* declaration = nullptr;
    for (const Function& function : functions) {
        if (function.name != name) continue;
        if (function.has_body || function.is_alias) return &function;
        declaration = &function;
    }
    return declaration;
}

Function* Module::function(std::string_view name) { return const_cast<Function*>(std::as_const(*this).function(name)); }

const Variable* Module::variable(std::string_view name) const {
    const Variable* declaration = nullptr;
    for (const Variable& variable : variables) {
        if (variable.name != name) continue;
        if (variable.linkage != Linkage::external) return &variable;
        declaration = &variable;
    }
    return declaration;
}

std::string to_string(const Module& module, const Diagnostic& diagnostic) {
    std::string text;
    if (diagnostic.unit < module.units.size() && !module.units[diagnostic.unit].name.empty())
        text = module.units[diagnostic.unit].name + ":";
    text += std::to_string(diagnostic.at.line) + ":" + std::to_string(diagnostic.at.column) + ": " + diagnostic.text;
    return text;
}

}  // namespace warpline::softgpu::ptx
