// Modules as PTX text.
#include "softgpu/ptx/printer.h"

#include "softgpu/ptx/writer.h"

namespace warpline::softgpu::ptx {
namespace {

void print_numbers(Writer& out, std::string_view word, const std::array<uint32_t, 3>& values, uint8_t count) {
    if (count == 0) return;
    out.text(word);
    for (uint8_t i = 0; i < count; i++) out.text(i == 0 ? " " : ", ").number(values[i]);
    out.text("\n");
}

void print_number(Writer& out, std::string_view word, uint32_t value, uint32_t absent) {
    if (value != absent) out.text(word).text(" ").number(value).text("\n");
}

void print_tuning(Writer& out, const Function& function) {
    const Tuning& tuning = function.tuning;
    if (tuning.noreturn) out.text(".noreturn\n");
    if (tuning.explicitcluster) out.text(".explicitcluster\n");
    print_numbers(out, ".maxntid", tuning.maxntid, tuning.maxntid_count);
    print_numbers(out, ".reqntid", tuning.reqntid, tuning.reqntid_count);
    print_numbers(out, ".reqnctapercluster", tuning.reqnctapercluster, tuning.reqnctapercluster_count);
    if (tuning.blocksareclusters) out.text(".blocksareclusters\n");
    print_number(out, ".maxclusterrank", tuning.maxclusterrank, 0);
    print_number(out, ".minnctapersm", tuning.minnctapersm, 0);
    print_number(out, ".maxnctapersm", tuning.maxnctapersm, 0);
    print_number(out, ".maxnreg", tuning.maxnreg, 0);
    print_number(out, ".abi_preserve", tuning.abi_preserve, UINT32_MAX);
    print_number(out, ".abi_preserve_control", tuning.abi_preserve_control, UINT32_MAX);
    for (std::string_view pragma : function.pragmas) out.text(".pragma \"").text(pragma).text("\";\n");
}

void print_function(Writer& out, const Function& function) {
    out.linkage(function.linkage);
    out.text(function.is_entry ? ".entry " : ".func ");
    for (std::string_view attribute : function.attributes) out.text(".attribute(").text(attribute).text(") ");
    if (!function.returns.empty()) {
        out.parameters(function.returns);
        out.text(" ");
    }
    out.text(function.name);
    out.parameters(function.params);
    out.text("\n");
    print_tuning(out, function);
    if (function.body)
        out.body(function);
    else if (function.has_body)
        out.text(function.body_text).text("\n");
    else
        out.text(";\n");
}

void print_header(Writer& out, const Module& module) {
    out.text(".version ").number(module.version.major_number).text(".").number(module.version.minor_number).text("\n");
    const Target& target = module.target;
    out.text(".target sm_").number(target.sm);
    if (target.suffix != 0) out.text({&target.suffix, 1});
    if (target.texmode_independent) out.text(", texmode_independent");
    if (target.texmode_unified) out.text(", texmode_unified");
    if (target.debug) out.text(", debug");
    if (target.map_f64_to_f32) out.text(", map_f64_to_f32");
    out.text("\n.address_size ").number(module.address_size).text("\n");
}

void print_item(Writer& out, const Module& module, const ModuleItem& item) {
    switch (item.kind) {
        case ModuleItem::Kind::variable: out.variable(module.variables[item.index], nullptr); break;
        case ModuleItem::Kind::function: print_function(out, module.functions[item.index]); break;
        case ModuleItem::Kind::file: out.text(".file").text(module.files[item.index]).text("\n"); break;
        case ModuleItem::Kind::section:
            out.text(".section ").text(module.sections[item.index].name);
            out.text(" {").text(module.sections[item.index].text).text("}\n");
            break;
        case ModuleItem::Kind::pragma: out.text(".pragma \"").text(module.pragmas[item.index]).text("\";\n"); break;
        case ModuleItem::Kind::alias: {
            const Function& function = module.functions[item.index];
            out.text(".alias ").text(function.name).text(", ").text(module.functions[function.alias_of].name).text(";\n");
            break;
        }
    }
}

}  // namespace

std::string print(const Module& module) {
    Writer out(module);
    print_header(out, module);
    for (const ModuleItem& item : module.items) print_item(out, module, item);
    return out.take();
}

std::string print(const Module& module, const Function& function, const Instruction& instruction) {
    Writer out(module);
    if (function.body) out.instruction(function, instruction);
    return out.take();
}

std::string register_name(const Function& function, RegId reg) {
    static const Module empty;
    Writer out(empty);
    if (function.body) out.register_name(function, reg);
    return out.take();
}

}  // namespace warpline::softgpu::ptx
