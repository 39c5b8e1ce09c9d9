// Takes a text through parser, checker, linker and printer.
#include "ptx_parser_fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "softgpu/passes/check.h"
#include "softgpu/passes/link.h"
#include "softgpu/ptx/parser.h"
#include "softgpu/ptx/printer.h"

// Everything that the front end does to a text from outside. What it accepts, it must be able to print and to accept again, and
// the second printing must be the first: a reader that loses something is caught without an assembler.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace warpline::softgpu;
    std::string_view text(reinterpret_cast<const char*>(data), size);
    ptx::ParseResult result = ptx::parse(text);
    if (!result.module) return 0;
    ptx::Diagnostics diagnostics;
    bool sound = ptx::parse_all_bodies(*result.module, diagnostics);
    passes::check(*result.module, diagnostics);
    std::string printed = ptx::print(*result.module);
    if (sound) {
        ptx::ParseResult again = ptx::parse(printed);
        if (!again.module || !ptx::parse_all_bodies(*again.module, diagnostics) || ptx::print(*again.module) != printed) {
            std::fprintf(stderr, "printed text is not read back as it was:\n%s\n", printed.c_str());
            std::abort();
        }
        std::vector<std::unique_ptr<ptx::Module>> modules;
        modules.push_back(std::move(again.module));
        modules.push_back(ptx::parse(printed).module);
        passes::LinkResult linked = passes::link(std::move(modules));
        if (linked.module && !ptx::parse_all_bodies(*linked.module, diagnostics)) {
            std::fprintf(stderr, "linked module is not sound:\n%s\n", printed.c_str());
            std::abort();
        }
    }
    return 0;
}
