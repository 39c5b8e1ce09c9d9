// The five kernels that the software GPU's design was measured with, against the same measurement of the prototype.
// Every result is compared, bit for bit, with what bench/scalar.cpp computes.

#include <algorithm>
#include <cstring>

#include "bench/scalar.h"
#include "bench/softgpu_driver.h"

#if WARPLINE_BENCH_PTX
#include "bench/softgpu_ptx.h"  // generated from kernels/softgpu.cu
#endif

namespace warpline::bench {

const char* softgpu_ptx() {
#if WARPLINE_BENCH_PTX
    return k_generated_ptx;
#else
    return nullptr;
#endif
}

namespace {

constexpr uint32_t k_elements = 1u << 24, k_side = 512, k_numbers = 1'000'000;

/// Milliseconds that the prototype took for the scalar C loop of `collatz` and for each kernel, on one core of the machine that
/// the design was measured on. The loop is what makes figures of different machines comparable: how fast it is depends on the
/// core alone, since no compiler can vectorise it.
constexpr double k_prototype_loop_ms = 144;

struct Kernel {
    const char* name;
    double prototype_ms;
    uint32_t grid[2], block[2];
};
constexpr Kernel k_kernels[] = {
    {"saxpy", 75.5, {k_elements / 256, 1}, {256, 1}},         {"mm16", 220.5, {k_side / 16, k_side / 16}, {16, 16}},
    {"mm32", 81.5, {k_side / 32, k_side / 32}, {32, 32}},     {"mmr", 43, {k_side / 64, k_side / 64}, {64, 1}},
    {"collatz", 531, {(k_numbers + 255) / 256, 1}, {256, 1}},
};

/// Inputs and the right result, computed when first asked for. Values are such that no sum is exact: an order of operations
/// other than the kernel's shows.
struct Problem {
    std::vector<float> a, b;
    std::vector<uint32_t> expected;
};

std::vector<float> values(size_t count, uint32_t seed) {
    std::vector<float> out(count);
    for (float& value : out) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
    }
    return out;
}

template <typename T>
std::vector<uint32_t> bits_of(const std::vector<T>& from) {
    std::vector<uint32_t> out(from.size());
    std::memcpy(out.data(), from.data(), from.size() * sizeof(T));
    return out;
}

Problem make_problem(const std::string& kernel) {
    Problem problem;
    if (kernel == "collatz") {
        problem.expected.resize(k_numbers);
        scalar::collatz(k_numbers, problem.expected.data());
    } else if (kernel == "saxpy") {
        problem.a = values(k_elements, 1);
        problem.b = values(k_elements, 2);
        std::vector<float> y = problem.b;
        scalar::saxpy(k_elements, 0.7f, problem.a.data(), y.data());
        problem.expected = bits_of(y);
    } else {
        problem.a = values(k_side * k_side, 3);
        problem.b = values(k_side * k_side, 4);
        std::vector<float> c(k_side * k_side);
        scalar::matmul(k_side, problem.a.data(), problem.b.data(), c.data());
        problem.expected = bits_of(c);
    }
    return problem;
}

/// CPU milliseconds of the scalar loop, on this core, now.
double loop_ms() {
    static std::vector<uint32_t> steps(k_numbers);
    double began = thread_cpu_seconds();
    scalar::collatz(k_numbers, steps.data());
    return (thread_cpu_seconds() - began) * 1e3;
}

/// Runs the kernel twice, the first time to have everything decoded and all pages there, and times the second run.
Result<std::vector<double>> measure(SoftGpu& gpu, const Kernel& kernel, const Problem& problem) {
    CUfunction function = WL_TRY(gpu.load(softgpu_ptx(), kernel.name));
    const size_t bytes = problem.expected.size() * 4;
    std::vector<uint32_t> got(problem.expected.size(), 0xffffffffu);
    CUdeviceptr a = 0, b = 0, out = 0;
    const bool is_saxpy = !problem.b.empty() && kernel.block[0] == 256;
    if (!problem.a.empty()) {
        a = WL_TRY(gpu.upload(problem.a.data(), problem.a.size() * 4));
        b = WL_TRY(gpu.upload(problem.b.data(), problem.b.size() * 4));
    }
    out = is_saxpy ? b : WL_TRY(gpu.upload(got.data(), bytes));
    float factor = 0.7f;
    auto count = static_cast<uint32_t>(is_saxpy ? k_elements : problem.a.empty() ? k_numbers : k_side);
    void* saxpy[] = {&count, &factor, &a, &b};
    void* matmul[] = {&a, &b, &out, &count};
    void* collatz[] = {&out, &count};
    void** arguments = is_saxpy ? saxpy : problem.a.empty() ? collatz : matmul;
    SoftGpu::Times times{};
    for (int run = 0; run < 2; ++run) {
        const void* fresh = is_saxpy ? static_cast<const void*>(problem.b.data()) : got.data();
        if (gpu.to_device(out, fresh, bytes) != CUDA_SUCCESS) return Error{Code::internal, "cuMemcpyHtoD"};
        times = WL_TRY(gpu.run(function, kernel.grid, kernel.block, arguments));
    }
    if (gpu.to_host(got.data(), out, bytes) != CUDA_SUCCESS) return Error{Code::internal, "cuMemcpyDtoH"};
    if (got != problem.expected) return Error{Code::internal, "the result is not the host's, bit for bit"};
    return std::vector<double>{times.elapsed * 1e3, times.cpu * 1e3};
}

Metrics run_kernel(const Kernel& kernel) {
    if (softgpu_ptx() == nullptr) return Error{Code::unsupported, "built where there was no nvcc to make the kernels with"};
    if (!scalar::supported()) return Error{Code::unsupported, "this CPU lacks the fused multiply-add that checks the results"};
    // One problem at a time: the cases run one after the other.
    static std::string of;
    static Problem problem;
    if (of != kernel.name) problem = make_problem(of = kernel.name);
    auto job = [&](SoftGpu& gpu) { return measure(gpu, kernel, problem); };
    double loop = loop_ms();
    std::vector<double> one = WL_TRY(with_softgpu(1, job));
    loop = std::min(loop, loop_ms());
    std::vector<double> all = WL_TRY(with_softgpu(0, job));
    double prototype = kernel.prototype_ms * loop / k_prototype_loop_ms;
    return std::vector<Metric>{{"one_core", one[1], "ms CPU"},
                               {"all_cores", all[0], "ms"},
                               {"scalar_loop", loop, "ms CPU"},
                               {"one_core/loop", one[1] / loop, "ratio"},
                               {"vs_prototype", one[1] / prototype, "ratio"}};
}

}  // namespace

std::vector<Case> softgpu_kernel_cases() {
    std::vector<Case> cases;
    static const char* const what[] = {"16 Mi elements of y = a x + y, blocks of 256", "512 x 512 matrices, tiles of 16 x 16",
                                       "512 x 512 matrices, tiles of 32 x 32", "512 x 512 matrices, 8 x 8 elements a thread",
                                       "a million divergent loops"};
    static const char* const names[] = {"softgpu_saxpy", "softgpu_mm16", "softgpu_mm32", "softgpu_mmr", "softgpu_collatz"};
    for (size_t i = 0; i < std::size(k_kernels); ++i) {
        cases.push_back({names[i], what[i], false, [i] { return run_kernel(k_kernels[i]); }});
    }
    return cases;
}

}  // namespace warpline::bench
