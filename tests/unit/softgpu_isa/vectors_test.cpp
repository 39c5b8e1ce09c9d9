// Loads and stores of vectors of all types (A6), by whatever pattern the lanes' addresses lie in.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

constexpr uint32_t k_vectors = 128;

struct VectorKind {
    uint32_t bits, register_bits, count;
    std::string name() const {
        return "b" + std::to_string(bits) + "r" + std::to_string(register_bits) + "v" + std::to_string(count);
    }
};
constexpr VectorKind k_kinds[] = {{8, 16, 2},  {8, 16, 4},  {8, 32, 2},  {8, 32, 4},  {16, 16, 2}, {16, 16, 4},
                                  {16, 32, 2}, {16, 32, 4}, {32, 32, 2}, {32, 32, 4}, {64, 64, 2}};

/// Lanes in `mask` load the vector that `from` has for them, and store it the other way round where `to` says.
std::string kernel(const VectorKind& kind) {
    std::string elements, reversed;
    for (uint32_t e = 0; e < kind.count; ++e) {
        elements += (e != 0 ? ", %e" : "%e") + std::to_string(e);
        reversed += (e != 0 ? ", %e" : "%e") + std::to_string(kind.count - 1 - e);
    }
    const std::string words = ".global.v" + std::to_string(kind.count) + ".u" + std::to_string(kind.bits);
    const std::string bytes = std::to_string(kind.bits / 8 * kind.count);
    return ".visible .entry " + kind.name() +
           "(.param .u64 in, .param .u64 out, .param .u64 from, .param .u64 to, .param .u32 mask) {\n.reg .b" +
           std::to_string(kind.register_bits) + " %e<" + std::to_string(kind.count) + R"(>;
  .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [from]; ld.param.u64 %rd4, [to];
  ld.param.u32 %r1, [mask];
  mov.u32 %r2, %tid.x; shr.u32 %r3, %r1, %r2; and.b32 %r3, %r3, 1; setp.eq.u32 %p1, %r3, 0;
  @%p1 bra done;
  mul.wide.u32 %rd5, %r2, 4; add.u64 %rd3, %rd3, %rd5; add.u64 %rd4, %rd4, %rd5;
  ld.global.u32 %r4, [%rd3]; mul.wide.u32 %rd5, %r4, )" +
           bytes + R"(; add.u64 %rd1, %rd1, %rd5;
  ld.global.u32 %r5, [%rd4]; mul.wide.u32 %rd5, %r5, )" +
           bytes + "; add.u64 %rd2, %rd2, %rd5;\n  ld" + words + " {" + elements + "}, [%rd1];\n  st" + words + " [%rd2], {" +
           reversed + "};\ndone:\n  ret;\n}\n";
}

std::vector<uint32_t> indices(const std::function<uint32_t(uint32_t)>& of_lane) {
    std::vector<uint32_t> out;
    for (uint32_t l = 0; l < 32; ++l) out.push_back(of_lane(l));
    return out;
}

void expect_copied(Device& device, Module& module, const VectorKind& kind, const std::vector<uint32_t>& from,
                   const std::vector<uint32_t>& to, uint32_t mask) {
    const uint32_t element = kind.bits / 8, bytes = element * kind.count;
    std::vector<uint8_t> in(k_vectors * bytes), expected(k_vectors * bytes, 0xee);
    for (size_t i = 0; i < in.size(); ++i) in[i] = uint8_t(i * 37 + i / 251);
    const uint64_t source = device.upload(in), target = device.upload(expected);
    EXPECT_RUNS(
        device.launch(module, kind.name(), {.block = {32}}, source, target, device.upload(from), device.upload(to), mask));
    for (uint32_t l = 0; l < 32; ++l) {
        if ((mask >> l & 1) == 0) continue;
        for (uint32_t e = 0; e < kind.count; ++e) {
            for (uint32_t b = 0; b < element; ++b)
                expected[to[l] * bytes + e * element + b] = in[from[l] * bytes + (kind.count - 1 - e) * element + b];
        }
    }
    EXPECT_EQ(device.download<uint8_t>(target, expected.size()), expected)
        << kind.name() << " from " << from[1] << " " << from[9] << " to " << to[1] << " " << to[9] << " mask " << mask;
}

TEST(SoftgpuVectors, AllTypesByAllPatterns) {
    std::string ptx = ".version 8.1\n.target sm_80\n.address_size 64\n";
    for (const VectorKind& kind : k_kinds) ptx += kernel(kind);
    const auto one_after_the_other = indices([](uint32_t l) { return l + 5; });
    const auto groups = indices([](uint32_t l) { return l / 8 * 21 + l % 8; });
    const auto anywhere = indices([](uint32_t l) { return (l * 7 + 3) % 32 * 4; });
    const auto same = indices([](uint32_t) { return 77; });
    const auto same_in_groups = indices([](uint32_t l) { return l / 8 * 3 + 1; });
    Device device;
    auto module = device.load(ptx);
    for (const VectorKind& kind : k_kinds) {
        for (const auto& from : {one_after_the_other, groups, anywhere, same, same_in_groups}) {
            for (const auto& to : {one_after_the_other, groups, anywhere}) {
                for (uint32_t mask : {0xffffffffu, 0x7ffffffeu, 0x00010300u}) {
                    expect_copied(device, *module, kind, from, to, mask);
                    device.free_all();
                }
            }
        }
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
