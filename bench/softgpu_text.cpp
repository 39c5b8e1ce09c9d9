// How fast the software GPU takes in PTX: parsing, and the way from a module's text to its first launch.

#include <cstring>
#include <string>
#include <tuple>

#include "bench/softgpu_driver.h"
#include "softgpu/ptx/parser.h"

namespace warpline::bench {

namespace {

/// Nine tenths of the kernels of NVIDIA's samples are no longer than this.
constexpr uint32_t k_p90_instructions = 619;
constexpr uint32_t k_threads = 128;

constexpr const char* k_header = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Groups of ten instructions in the proportions of compiled code, and what each computes from (x, y), for the check.
constexpr const char* k_group = R"(
	add.s32 	%r3, %r1, %r2;
	shl.b32 	%r4, %r2, 5;
	xor.b32 	%r5, %r3, %r4;
	setp.lt.u32 	%p1, %r5, %r1;
	selp.b32 	%r6, %r3, %r5, %p1;
	mad.lo.s32 	%r7, %r6, 1664525, %r1;
	st.shared.u32 	[%r10], %r7;
	ld.shared.u32 	%r2, [%r10];
	shr.u32 	%r8, %r7, 3;
	sub.s32 	%r1, %r8, %r5;
)";
constexpr uint32_t k_group_instructions = 10, k_frame_instructions = 19;

std::pair<uint32_t, uint32_t> step(uint32_t x, uint32_t y) {
    uint32_t r3 = x + y, r5 = r3 ^ y << 5, r6 = r5 < x ? r3 : r5, r7 = r6 * 1664525u + x;
    return {(r7 >> 3) - r5, r7};
}

/// A kernel of exactly `instructions`, all of them executed: k_frame_instructions, the rest groups.
std::string kernel_text(const std::string& name, uint32_t instructions) {
    std::string text = ".visible .entry " + name + "(\n\t.param .u64 " + name + "_param_0\n)\n{\n" +
                       "\t.reg .pred \t%p<2>;\n\t.reg .b32 \t%r<20>;\n\t.reg .b64 \t%rd<8>;\n"
                       "\t.shared .align 4 .b8 tile[512];\n\n"
                       "\tld.param.u64 \t%rd1, [" +
                       name + "_param_0];\n" +
                       "\tmov.u32 \t%r11, %ctaid.x;\n\tmov.u32 \t%r12, %ntid.x;\n\tmov.u32 \t%r13, %tid.x;\n"
                       "\tmad.lo.s32 \t%r1, %r11, %r12, %r13;\n\tadd.s32 \t%r2, %r1, 12345;\n"
                       "\tmov.u32 \t%r14, tile;\n\tshl.b32 \t%r15, %r13, 2;\n\tadd.s32 \t%r10, %r14, %r15;\n"
                       "\tcvta.to.global.u64 \t%rd2, %rd1;\n\tmul.wide.u32 \t%rd3, %r1, 8;\n\tadd.s64 \t%rd4, %rd2, %rd3;\n"
                       "\tsetp.eq.s32 \t%p1, %r12, 0;\n\t@%p1 bra \t$L__BB0_1;\n";
    for (uint32_t done = k_frame_instructions; done < instructions; done += k_group_instructions) text += k_group;
    text +=
        "\n\tst.global.u32 \t[%rd4], %r1;\n\tst.global.u32 \t[%rd4+4], %r2;\n\tbar.sync \t0;\n\tmov.u32 \t%r16, 0;\n\n"
        "$L__BB0_1:\n\tret;\n\n}\n";
    return text;
}

/// Megabytes of text per second, all bodies parsed: what nvcc writes if there is some, else what is made up above.
Metrics parse() {
    static const std::string text = [] {
        std::string out = k_header;
        for (uint32_t i = 0; out.size() < (8u << 20); ++i) {
            // The function's number goes before each name of the text's entries.
            std::string one = kernel_text("made_" + std::to_string(i), k_p90_instructions);
            if (softgpu_ptx() != nullptr) {
                const char* begin = std::strstr(softgpu_ptx(), ".visible .entry");
                one = begin != nullptr ? begin : one;
                const std::string entry = ".visible .entry ";
                for (size_t at = one.find(entry); at != std::string::npos; at = one.find(entry, at + 1)) {
                    one.insert(at + entry.size(), "k" + std::to_string(i) + "_");
                }
            }
            out += one;
        }
        return out;
    }();
    double began = thread_cpu_seconds();
    softgpu::ptx::ParseResult result = softgpu::ptx::parse(text);
    softgpu::ptx::Diagnostics diagnostics;
    bool good = result.module != nullptr && softgpu::ptx::parse_all_bodies(*result.module, diagnostics);
    double seconds = thread_cpu_seconds() - began;
    if (!good) return Error{Code::malformed, "the text does not parse"};
    size_t instructions = 0;
    for (const auto& function : result.module->functions) {
        if (function.body != nullptr) instructions += function.body->instructions.size();
    }
    if (instructions < text.size() / 100) return Error{Code::internal, "instructions are missing"};
    return std::vector<Metric>{{"text", static_cast<double>(text.size()) / seconds * 1e-6, "MB/s CPU"},
                               {"instructions", static_cast<double>(instructions) / seconds * 1e-6, "M/s CPU"}};
}

/// From the text of a module to the end of its first launch: milliseconds of the clock, and of CPU time.
struct Start {
    double elapsed, cpu;
};
Result<Start> first_launch(SoftGpu& gpu, const std::string& name) {
    std::string text = k_header + kernel_text(name, k_p90_instructions);
    std::vector<uint32_t> got(2 * k_threads);
    CUdeviceptr out = WL_TRY(gpu.upload(got.data(), got.size() * 4));
    void* arguments[] = {&out};
    double cpu = process_cpu_seconds();
    uint64_t began = now_ns();
    CUfunction function = WL_TRY(gpu.load(text.c_str(), name.c_str()));
    WL_TRY(gpu.run(function, {1, 1}, {k_threads, 1}, arguments));
    Start start{static_cast<double>(now_ns() - began) * 1e-6, (process_cpu_seconds() - cpu) * 1e3};
    if (gpu.to_host(got.data(), out, got.size() * 4) != CUDA_SUCCESS) return Error{Code::internal, "cuMemcpyDtoH"};
    for (uint32_t thread = 0; thread < k_threads; ++thread) {
        uint32_t x = thread, y = thread + 12345;
        for (uint32_t done = k_frame_instructions; done < k_p90_instructions; done += k_group_instructions) {
            std::tie(x, y) = step(x, y);
        }
        if (got[2 * thread] != x || got[2 * thread + 1] != y) return Error{Code::internal, "a wrong result", thread};
    }
    return start;
}

Metrics start_up() {
    auto job = [](SoftGpu& gpu) -> Result<std::vector<double>> {
        Start first = WL_TRY(first_launch(gpu, "first"));
        Start later = WL_TRY(first_launch(gpu, "later"));
        return std::vector<double>{first.elapsed, first.cpu, later.elapsed, later.cpu};
    };
    std::vector<double> times = WL_TRY(with_softgpu(0, job));
    return std::vector<Metric>{{"first", times[0], "ms"},
                               {"first_cpu", times[1], "ms CPU"},
                               {"later", times[2], "ms"},
                               {"later_cpu", times[3], "ms CPU"}};
}

}  // namespace

std::vector<Case> softgpu_text_cases() {
    return {
        {"softgpu_parse", "8 MB of PTX, parsed whole", false, parse},
        {"softgpu_start", "a kernel of 619 instructions, from its text to the end of its first launch", false, start_up},
    };
}

}  // namespace warpline::bench
