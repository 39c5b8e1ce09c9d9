// Parsing PTX: what it takes and gives.
#pragma once

#include <memory>
#include <string_view>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::ptx {

/// What parse() gives. `module` is null if anything was wrong; `cu_result` then is the CUresult that says so:
/// 218 invalid PTX, 222 .version newer than 9.5, 209 .target beyond sm_121.
struct ParseResult {
    std::unique_ptr<Module> module;
    Diagnostics diagnostics;
    int cu_result = 0;
};

struct ParseOptions {
    std::string_view unit_name;  ///< for messages
};

/// Parses the module level of a PTX text: version, target, globals with initialisers, functions with parameters. Bodies are
/// only delimited; parse_body() reads one when it is needed. The text is copied and kept. Never throws but std::bad_alloc,
/// never aborts; nesting, sizes and counts are bounded.
///
/// @thread any; results are independent
ParseResult parse(std::string_view text, const ParseOptions& options = {});

/// Parses the body of function.has_body, once: function.body is set, or stays null and the messages say why.
/// Names are resolved against the module. An alias has no body of its own.
///
/// @return true if the function has a body tree now
/// @thread different functions of one module may be parsed at the same time; one function by one caller at a time
bool parse_body(const Module& module, Function& function, Diagnostics& diagnostics);

/// All bodies, in order. True if all of them are sound.
bool parse_all_bodies(Module& module, Diagnostics& diagnostics);

/// Limits of the parser: beyond them a text is refused with a `limit` diagnostic.
struct Limits {
    static constexpr size_t k_text_bytes = size_t{1} << 30;
    static constexpr size_t k_nesting = 128;                     ///< of blocks, braces and parentheses
    static constexpr size_t k_registers = size_t{1} << 22;       ///< of one body
    static constexpr size_t k_variable_bytes = size_t{1} << 36;  ///< of one variable
    static constexpr size_t k_init_bytes = size_t{1} << 30;      ///< of the initialisers of a text
    static constexpr size_t k_dims = 16;
    static constexpr size_t k_params = 4096;
    static constexpr size_t k_operands = 255;    ///< of one instruction
    static constexpr size_t k_elements = 1024;   ///< of one vector, list or call
    static constexpr size_t k_diagnostics = 50;  ///< kept; further ones are dropped
};

}  // namespace warpline::softgpu::ptx
