// From texts to a module that can be decoded.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "softgpu/passes/link.h"

namespace warpline::softgpu::passes {

struct LoadResult {
    std::unique_ptr<ptx::Module> module;  ///< null if anything was wrong
    int cu_result = 0;                    ///< 218 invalid PTX, 222 unsupported .version, 209 unsupported .target
    std::string log;                      ///< as in the JIT error log: "name:line:column: message", one per line
};

/// Parses one or several PTX texts and links them: everything between the bytes of an image and a module that can be decoded.
/// `names` are for messages, one per text, or empty.
///
/// @errors as in LoadResult::cu_result
/// @thread any
LoadResult load(std::span<const std::string_view> texts, std::span<const std::string_view> names, const LinkOptions& options);

/// Parses and checks one function's body, once. On failure `log` says why and the result is what a launch of it must return:
/// 801 if only opcodes or modifiers are unknown, else 218.
///
/// @return 0 if function.body is there and sound
/// @thread as ptx::parse_body
int prepare_body(const ptx::Module& module, ptx::Function& function, std::string& log);

}  // namespace warpline::softgpu::passes
