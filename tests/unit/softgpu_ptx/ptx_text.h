// PTX texts for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "softgpu/ptx/parser.h"
#include "softgpu/ptx/printer.h"

namespace warpline::softgpu::test {

/// A text with header, around module-level statements.
inline std::string with_header(std::string_view statements, int sm = 90) {
    return ".version 9.0\n.target sm_" + std::to_string(sm) + "\n.address_size 64\n" + std::string(statements);
}

/// An entry `k` with a register of each kind: %h (b16), %r (b32), %d (b64), %f (f32), %e (f64), %p (pred), %q (b128), and typed
/// ones: u32 %u, s32 %s, f16 %g, f16x2 %x.
inline std::string with_entry(std::string_view body) {
    return with_header(
               ".global .align 16 .u32 gv[8];\n.shared .align 16 .u32 sv[8];\n.const .align 16 .u32 cv[8];\n"
               ".func (.param .b32 r) callee(.param .b32 a, .param .b64 b) { ret; }\n"
               ".visible .entry k(.param .u64 prm) {\n"
               ".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .f64 %e<9>; .reg .pred %p<9>;\n"
               ".reg .b128 %q<9>; .reg .u32 %u<9>; .reg .s32 %s<9>; .reg .f16 %g<9>; .reg .f16x2 %x<9>; .reg .b8 %c<9>;\n"
               ".param .b32 p32; .param .b64 p64; .local .align 16 .b8 lv[32];\n") +
           std::string(body) + "\nret;\n}\n";
}

inline std::string all_text(const ptx::Diagnostics& diagnostics) {
    std::string text;
    for (const ptx::Diagnostic& d : diagnostics) text += ptx::to_string(ptx::Module(), d) + "\n";
    return text;
}

/// The module of a text that must be sound, bodies included.
inline std::unique_ptr<ptx::Module> parsed(std::string_view text) {
    ptx::ParseResult result = ptx::parse(text);
    EXPECT_TRUE(result.module) << all_text(result.diagnostics);
    if (!result.module) return nullptr;
    ptx::Diagnostics diagnostics;
    EXPECT_TRUE(ptx::parse_all_bodies(*result.module, diagnostics)) << all_text(diagnostics);
    return std::move(result.module);
}

/// The first message of a text, from the module level or from the bodies; empty for a sound one.
inline std::string first_message(std::string_view text) {
    ptx::ParseResult result = ptx::parse(text);
    ptx::Diagnostics diagnostics = std::move(result.diagnostics);
    if (result.module) ptx::parse_all_bodies(*result.module, diagnostics);
    return diagnostics.empty() ? "" : ptx::to_string(ptx::Module(), diagnostics[0]);
}

}  // namespace warpline::softgpu::test
