// Parses and links what an image holds; bodies are parsed and checked when they are needed.
#include "softgpu/passes/load.h"

#include <algorithm>

#include "softgpu/passes/check.h"
#include "softgpu/passes/device_library.h"
#include "softgpu/ptx/parser.h"

namespace warpline::softgpu::passes {
namespace {

void append(std::string& log, const ptx::Module& module, const ptx::Diagnostics& diagnostics) {
    for (const ptx::Diagnostic& diagnostic : diagnostics) log += ptx::to_string(module, diagnostic) + "\n";
}

}  // namespace

LoadResult load(std::span<const std::string_view> texts, std::span<const std::string_view> names, const LinkOptions& options) {
    LoadResult result;
    ptx::Module units;  // only for the names in messages: the modules that have them may be gone by then
    std::vector<std::unique_ptr<ptx::Module>> modules;
    for (size_t i = 0; i < texts.size(); i++) {
        ptx::ParseOptions parse_options;
        parse_options.unit_name = i < names.size() ? names[i] : std::string_view();
        units.units.emplace_back().name = parse_options.unit_name;
        ptx::ParseResult parsed = ptx::parse(texts[i], parse_options);
        for (ptx::Diagnostic& diagnostic : parsed.diagnostics) diagnostic.unit = static_cast<uint32_t>(i);
        append(result.log, units, parsed.diagnostics);
        if (!parsed.module && result.cu_result == 0) result.cu_result = parsed.cu_result;
        modules.push_back(std::move(parsed.module));
    }
    if (result.cu_result != 0) return result;
    if (auto library = device_library_for(modules)) {
        units.units.emplace_back().name = "device run time";
        modules.push_back(std::move(library));
    }
    LinkResult linked = link(std::move(modules), options);
    append(result.log, units, linked.diagnostics);
    result.cu_result = linked.cu_result;
    result.module = std::move(linked.module);
    return result;
}

int prepare_body(const ptx::Module& module, ptx::Function& function, std::string& log) {
    ptx::Diagnostics diagnostics;
    bool sound = ptx::parse_body(module, function, diagnostics) && check(module, function, diagnostics);
    append(log, module, diagnostics);
    if (sound) return 0;
    bool unknown_only = !diagnostics.empty() &&
                        std::all_of(diagnostics.begin(), diagnostics.end(),
                                    [](const ptx::Diagnostic& d) { return d.kind == ptx::DiagnosticKind::unsupported; });
    return unknown_only ? 801 : 218;
}

}  // namespace warpline::softgpu::passes
