// suld, sust, sured, suq (A6).
#include "softgpu/exec/texture.h"
#include "tests/unit/softgpu_isa/cluster_launch.h"

namespace warpline::softgpu::exec::test {
namespace {

class Surface {
public:
    Surface(TexelType type, uint8_t channels, uint8_t element, uint32_t width, uint32_t height = 1, uint32_t depth = 1)
        : bytes(size_t{width} * height * depth * element) {
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * 13 + 5);
        SurfaceDescriptor d;
        d.type = type;
        d.channels = channels;
        d.element_bytes = element;
        d.layers = depth;
        d.level = {reinterpret_cast<std::byte*>(bytes.data()), width, height, depth, uint64_t{width} * element,
                   uint64_t{width} * height * element};
        handle = add_surface(d);
    }
    ~Surface() { remove_surface(handle); }
    uint32_t word(size_t byte) const {
        uint32_t value;
        std::memcpy(&value, &bytes[byte], 4);
        return value;
    }
    std::vector<uint8_t> bytes;
    uint64_t handle = 0;
};

/// One thread, four words in, four out.
std::string surface_kernel(const std::string& name, const std::string& text) {
    return ".visible .entry " + name + R"((.param .u64 s, .param .u64 in, .param .u64 out) {
  .reg .b64 %rd<6>; .reg .b32 c<4>; .reg .b32 r<4>; .reg .b64 %s; .reg .b16 h<4>; .reg .b64 l<2>;
  ld.param.u64 %s, [s]; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  ld.global.v4.b32 {c0, c1, c2, c3}, [%rd1];
  mov.b32 r0, 0; mov.b32 r1, 0; mov.b32 r2, 0; mov.b32 r3, 0;
  )" + text +
           R"(
  st.global.v4.b32 [%rd2], {r0, r1, r2, r3};
  ret;
}
)";
}

/// Runs one kernel in a device of its own: a fault does not concern the next.
std::array<uint32_t, 4> run(const std::string& text, const Surface& surface, std::array<int, 4> in, int expect = 0) {
    Device device;
    auto module = load_checked(device, surface_kernel("k", text), "sm_80", "8.0");
    if (module == nullptr) return {};
    uint64_t from = device.upload(std::vector<std::array<int, 4>>{in}), to = device.allocate(16);
    Fault fault = device.launch(*module, "k", {}, surface.handle, from, to);
    EXPECT_EQ(fault.cu_result, expect) << text << fault.text;
    return device.download<std::array<uint32_t, 4>>(to, 1)[0];
}

TEST(SoftgpuSurface, LoadsOfAllGeometriesAndSizes) {
    Surface line(TexelType::u32, 1, 4, 16), plane(TexelType::u8, 4, 4, 8, 4), volume(TexelType::f32, 1, 4, 4, 3, 2),
        layers(TexelType::f32, 1, 4, 4, 3, 5);
    EXPECT_EQ(run("suld.b.1d.b32.trap r0, [%s, {c0}];", line, {8})[0], line.word(8));
    EXPECT_EQ(run("suld.b.1d.v2.b32.trap {r0, r1}, [%s, {c0}];", line, {8})[1], line.word(12));
    EXPECT_EQ(run("suld.b.2d.v4.b32.trap {r0, r1, r2, r3}, [%s, {c0, c1}];", plane, {16, 2}),
              (std::array<uint32_t, 4>{plane.word(80), plane.word(84), plane.word(88), plane.word(92)}));
    EXPECT_EQ(run("suld.b.2d.b8.trap h0, [%s, {c0, c1}]; cvt.u32.u16 r0, h0;", plane, {5, 3})[0], plane.bytes[32 * 3 + 5]);
    EXPECT_EQ(run("suld.b.2d.v2.b16.trap {h0, h1}, [%s, {c0, c1}]; mov.b32 r0, {h0, h1};", plane, {4, 1})[0], plane.word(36));
    EXPECT_EQ(run("suld.b.2d.b64.trap l0, [%s, {c0, c1}]; mov.b64 {r0, r1}, l0;", plane, {8, 1})[1], plane.word(44));
    EXPECT_EQ(run("suld.b.3d.b32.trap r0, [%s, {c0, c1, c2, c3}];", volume, {4, 2, 1})[0], volume.word(48 + 32 + 4));
    EXPECT_EQ(run("suld.b.a1d.b32.trap r0, [%s, {c0, c1}];", layers, {3, 4})[0], layers.word(3 * 48 + 4));
    EXPECT_EQ(run("suld.b.a2d.b32.trap r0, [%s, {c0, c1, c2, c3}];", layers, {4, 12, 2})[0], layers.word(4 * 48 + 2 * 16 + 12));
}

TEST(SoftgpuSurface, OutsideIsTrapClampOrZero) {
    Surface plane(TexelType::u32, 1, 4, 8, 4);
    run("suld.b.2d.b32.trap r0, [%s, {c0, c1}];", plane, {32, 0}, 719);
    run("suld.b.2d.b32.trap r0, [%s, {c0, c1}];", plane, {0, -1}, 719);
    run("suld.b.2d.b32.trap r0, [%s, {c0, c1}];", plane, {2, 1}, 716);
    EXPECT_EQ(run("suld.b.2d.b32.zero r0, [%s, {c0, c1}];", plane, {32, 0})[0], 0u);
    EXPECT_EQ(run("suld.b.2d.b32.zero r0, [%s, {c0, c1}];", plane, {28, 3})[0], plane.word(3 * 32 + 28));
    EXPECT_EQ(run("suld.b.2d.b32.clamp r0, [%s, {c0, c1}];", plane, {400, 17})[0], plane.word(3 * 32 + 28));
    EXPECT_EQ(run("suld.b.2d.b32.clamp r0, [%s, {c0, c1}];", plane, {-4, -4})[0], plane.word(0));
    auto before = plane.bytes;
    run("sust.b.2d.b32.zero [%s, {c0, c1}], c2;", plane, {32, 0, 77});
    EXPECT_EQ(plane.bytes, before);
    run("sust.b.2d.b32.trap [%s, {c0, c1}], c2;", plane, {0, 4, 77}, 719);
    EXPECT_EQ(plane.bytes, before);
}

TEST(SoftgpuSurface, Stores) {
    Surface plane(TexelType::u32, 1, 4, 8, 4), bytes(TexelType::u8, 4, 4, 8, 2), halves(TexelType::f16, 2, 4, 8, 2),
        layers(TexelType::u32, 1, 4, 4, 2, 3);
    run("sust.b.2d.b32.trap [%s, {c0, c1}], c2;", plane, {12, 2, 77});
    EXPECT_EQ(plane.word(64 + 12), 77u);
    run("sust.b.2d.v2.b32.trap [%s, {c0, c1}], {c2, c3};", plane, {16, 2, 78, 79});
    EXPECT_EQ(plane.word(64 + 20), 79u);
    run("cvt.u16.u32 h0, c2; sust.b.2d.b8.trap [%s, {c0, c1}], h0;", bytes, {5, 1, 0x1ab});
    EXPECT_EQ(bytes.bytes[32 + 5], 0xab);
    run("sust.b.a2d.b32.trap [%s, {c0, c1, c2, c3}], c0;", layers, {2, 4, 1, 0});
    EXPECT_EQ(layers.word(2 * 32 + 16 + 4), 2u);
    run("sust.p.2d.v4.b32.trap [%s, {c0, c1}], {c2, c3, c0, c1};", bytes, {3, 0, 300, 7});
    EXPECT_EQ(bytes.word(12), 0x000307ffu);  // too large a value is the largest
    run("mov.b32 r0, 0f3F800000; mov.b32 r1, 0fC0000000; sust.p.2d.v2.b32.trap [%s, {c0, c1}], {r0, r1};", halves, {2, 1});
    EXPECT_EQ(halves.word(32 + 8), 0xc0003c00u);
}

TEST(SoftgpuSurface, ReductionsAndQueries) {
    Surface plane(TexelType::u32, 1, 4, 8, 4), is_signed(TexelType::s32, 1, 4, 8);
    uint32_t before = plane.word(8);
    run("sured.b.add.2d.u32.trap [%s, {c0, c1}], c2;", plane, {8, 0, 5});
    EXPECT_EQ(plane.word(8), before + 5);
    run("sured.b.or.2d.b32.trap [%s, {c0, c1}], c2;", plane, {8, 0, -1});
    EXPECT_EQ(plane.word(8), 0xffffffffu);
    run("sured.p.min.2d.b32.trap [%s, {c0, c1}], c2;", plane, {2, 0, 9});
    EXPECT_EQ(plane.word(8), 9u);
    run("sured.p.max.1d.b32.trap [%s, {c0}], c2;", is_signed, {3, 0, -9});
    EXPECT_EQ(is_signed.word(12), uint32_t(std::max<int32_t>(-9, int32_t(is_signed.word(12)))));
    auto answers = run("suq.width.b32 r0, [%s]; suq.height.b32 r1, [%s]; suq.channel_data_type.b32 r2, [%s];", plane, {});
    EXPECT_EQ(answers, (std::array<uint32_t, 4>{8, 4, 0x10dc, 0}));
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
