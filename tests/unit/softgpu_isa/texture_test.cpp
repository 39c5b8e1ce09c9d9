// tex, tld4, txq on all geometries, formats, filters and address modes (A6). The reference follows the formulas of the CUDA C++
// Programming Guide, "Texture Fetching".
#include "softgpu/exec/texture.h"

#include <array>
#include <cmath>
#include <random>

#include "tests/unit/softgpu_isa/cluster_launch.h"

namespace warpline::softgpu::exec::test {
namespace {

/// A texture of floats, one channel, and its handle.
class Image {
public:
    Image(TextureShape shape, uint32_t width, uint32_t height = 1, uint32_t depth = 1)
        : m_values(size_t{width} * height * depth) {
        for (size_t i = 0; i < m_values.size(); ++i) m_values[i] = float((i * 37) % 101) - 20.0f;
        d.shape = shape;
        d.type = TexelType::f32;
        d.element_bytes = 4;
        d.linear_elements = width;
        d.levels[0] = {reinterpret_cast<std::byte*>(m_values.data()),
                       width,
                       height,
                       depth,
                       uint64_t{width} * 4,
                       uint64_t{width} * height * 4};
    }
    ~Image() {
        if (m_handle != 0) remove_texture(m_handle);
    }
    /// A new handle for the descriptor as it is now.
    uint64_t handle() {
        if (m_handle != 0) remove_texture(m_handle);
        return m_handle = add_texture(d);
    }
    float at(int x, int y = 0, int z = 0) const {
        const TextureLevel& l = d.levels[0];
        return m_values[(size_t(z) * l.height + size_t(y)) * l.width + size_t(x)];
    }

    TextureDescriptor d;

private:
    std::vector<float> m_values;
    uint64_t m_handle = 0;
};

/// Kernels: in is a row of four words for each thread, out another.
std::string kernel(const std::string& name, const std::string& instruction) {
    return ".visible .entry " + name + R"((.param .u64 t, .param .u64 in, .param .u64 out) {
  .reg .b64 %rd<6>; .reg .b32 %r<3>; .reg .b32 c<5>; .reg .b32 r<5>; .reg .b64 %t;
  ld.param.u64 %t, [t]; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 16;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.v4.b32 {c0, c1, c2, c3}, [%rd1];
  )" + instruction +
           R"(
  st.global.v4.b32 [%rd2], {r0, r1, r2, r3};
  ret;
}
)";
}

class Textures {
public:
    using Kernels = std::vector<std::pair<std::string, std::string>>;
    Textures(const std::string& name, const std::string& text) : Textures(Kernels{{name, text}}) {}
    explicit Textures(const Kernels& kernels) {
        std::string ptx;
        for (const auto& [name, text] : kernels) ptx += kernel(name, text);
        m_module = load_checked(m_device, ptx, "sm_80", "8.0");
    }
    /// Rows of four words through a kernel.
    template <typename T>
    std::vector<std::array<uint32_t, 4>> run(const std::string& name, uint64_t texture, const std::vector<std::array<T, 4>>& in,
                                             int expect = 0) {
        uint64_t from = m_device.upload(in), to = m_device.allocate(in.size() * 16);
        Fault fault = m_module == nullptr
                          ? Fault{1, "no module"}
                          : m_device.launch(*m_module, name, {.block = {uint32_t(in.size())}}, texture, from, to);
        EXPECT_EQ(fault.cu_result, expect) << name << ": " << fault.text;
        return m_device.download<std::array<uint32_t, 4>>(to, in.size());
    }
    Device& device() { return m_device; }

private:
    Device m_device;
    std::shared_ptr<Module> m_module;
};

float as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// --- the reference

int wrap_index(int i, int n, TextureAddress mode, bool& outside) {
    if (mode == TextureAddress::clamp) return std::min(std::max(i, 0), n - 1);
    if (mode == TextureAddress::border) {
        outside = outside || i < 0 || i >= n;
        return i;
    }
    if (mode == TextureAddress::wrap) {
        while (i < 0) i += n;
        return i % n;
    }
    while (i < 0) i += 2 * n;
    i %= 2 * n;
    return i < n ? i : 2 * n - 1 - i;
}

float texel(const Image& image, int dims, const int* index) {
    bool outside = false;
    int at[3] = {0, 0, 0};
    const int sizes[3] = {int(image.d.levels[0].width), int(image.d.levels[0].height), int(image.d.levels[0].depth)};
    for (int k = 0; k < dims; ++k) at[k] = wrap_index(index[k], sizes[k], image.d.address[k], outside);
    return outside ? image.d.border[0] : image.at(at[0], at[1], at[2]);
}

float reference(const Image& image, int dims, const float* coordinates) {
    double x[3];
    const double sizes[3] = {double(image.d.levels[0].width), double(image.d.levels[0].height),
                             double(image.d.levels[0].depth)};
    for (int k = 0; k < dims; ++k)
        x[k] = image.d.normalised_coordinates ? double(coordinates[k]) * sizes[k] : double(coordinates[k]);
    int index[3] = {0, 0, 0};
    if (!image.d.linear_filter) {
        for (int k = 0; k < dims; ++k) index[k] = int(std::floor(x[k]));
        return texel(image, dims, index);
    }
    double sum = 0;
    for (int corner = 0; corner < 1 << dims; ++corner) {
        double weight = 1;
        for (int k = 0; k < dims; ++k) {
            double b = std::floor((x[k] - 0.5) * 256 + 0.5) / 256, whole = std::floor(b), fraction = b - whole;
            bool upper = (corner >> k & 1) != 0;
            index[k] = int(whole) + upper;
            weight *= upper ? fraction : 1 - fraction;
        }
        if (weight != 0) sum += weight * double(texel(image, dims, index));
    }
    return float(sum);
}

TEST(SoftgpuTexture, FiltersAndAddressModesInOneTwoAndThreeDimensions) {
    Textures textures(Textures::Kernels{{"one", "tex.1d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0}];"},
                                        {"two", "tex.2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}];"},
                                        {"three", "tex.3d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1, c2, c3}];"}});
    const char* names[] = {"one", "two", "three"};
    for (int dims = 1; dims <= 3; ++dims) {
        Image image(dims == 1   ? TextureShape::one
                    : dims == 2 ? TextureShape::two
                                : TextureShape::three,
                    8, dims > 1 ? 5 : 1, dims > 2 ? 4 : 1);
        image.d.border[0] = -77.0f;
        for (bool normalised : {false, true}) {
            for (bool linear : {false, true}) {
                for (TextureAddress mode :
                     {TextureAddress::wrap, TextureAddress::clamp, TextureAddress::mirror, TextureAddress::border}) {
                    if (!normalised && (mode == TextureAddress::wrap || mode == TextureAddress::mirror)) continue;
                    image.d.normalised_coordinates = normalised;
                    image.d.linear_filter = linear;
                    for (auto& m : image.d.address) m = mode;
                    std::vector<std::array<float, 4>> in;
                    std::mt19937 random(9);
                    for (int i = 0; i < 512; ++i) {
                        std::array<float, 4> c{};
                        for (int k = 0; k < 3; ++k) {
                            // On a grid of 1/64 texel (sizes are powers of two in x only): no doubt where a texel ends.
                            float texels = float(int(random() % 1600) - 500) / 64.0f + 1.0f / 256;
                            c[size_t(k)] = normalised ? texels / (k == 0 ? 8.0f : k == 1 ? 5.0f : 4.0f) : texels;
                        }
                        in.push_back(c);
                    }
                    auto out = textures.run(names[dims - 1], image.handle(), in);
                    for (size_t i = 0; i < in.size(); ++i) {
                        float expected = reference(image, dims, in[i].data());
                        ASSERT_NEAR(as_float(out[i][0]), expected, linear ? 1e-4 : 0)
                            << dims << normalised << linear << int(mode) << " " << in[i][0] << " " << in[i][1] << " "
                            << in[i][2];
                    }
                }
            }
        }
    }
}

TEST(SoftgpuTexture, WeightsHaveEightBits) {
    Textures textures("k", "tex.1d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0}];");
    Image image(TextureShape::one, 2);
    image.d.linear_filter = true;
    float a = image.at(0), b = image.at(1);
    auto out =
        textures.run("k", image.handle(),
                     std::vector<std::array<float, 4>>{{0.5f + 1.0f / 256}, {0.5f + 1.0f / 1024}, {0.5f + 100.4f / 256}});
    EXPECT_EQ(as_float(out[0][0]), a + (b - a) / 256);
    EXPECT_EQ(as_float(out[1][0]), a);
    EXPECT_EQ(as_float(out[2][0]), a + (b - a) * 100 / 256);
    EXPECT_EQ(as_float(out[0][1]), 0.0f);
    EXPECT_EQ(as_float(out[0][3]), 1.0f);
}

TEST(SoftgpuTexture, LinearMemoryByIndex) {
    Textures textures("k", "tex.1d.v4.f32.s32 {r0, r1, r2, r3}, [%t, {c0}];");
    Image image(TextureShape::linear, 100);
    auto out = textures.run("k", image.handle(), std::vector<std::array<int, 4>>{{0}, {99}, {100}, {-1}, {42}});
    for (auto [row, index] : {std::pair{0, 0}, {1, 99}, {4, 42}}) EXPECT_EQ(as_float(out[size_t(row)][0]), image.at(index));
    EXPECT_EQ(out[2][0], 0u);
    EXPECT_EQ(out[3][0], 0u);
}

/// Memory of the program that is not there any more is a fault of the kernel.
TEST(SoftgpuTexture, FreedMemoryFaults) {
    Textures textures("k", "tex.1d.v4.f32.s32 {r0, r1, r2, r3}, [%t, {c0}];");
    Image image(TextureShape::linear, 100);
    image.d.program_memory = true;  // and not known to the engine
    textures.run("k", image.handle(), std::vector<std::array<int, 4>>{{5}}, 700);
    Textures others("k", "tex.1d.v4.f32.s32 {r0, r1, r2, r3}, [%t, {c0}];");
    uint64_t memory = others.device().upload(std::vector<float>{1, 2, 3});
    image.d.levels[0].base = reinterpret_cast<std::byte*>(memory);
    auto out = others.run("k", image.handle(), std::vector<std::array<int, 4>>{{1}});
    EXPECT_EQ(as_float(out[0][0]), 2.0f);
    // Textures may be longer than the memory; reads beyond it are faults as any.
    image.d.linear_elements = 1 << 20;
    out = others.run("k", image.handle(), std::vector<std::array<int, 4>>{{2}, {1 << 20}});
    EXPECT_EQ(as_float(out[0][0]), 3.0f);
    EXPECT_EQ(out[1][0], 0u);
    others.run("k", image.handle(), std::vector<std::array<int, 4>>{{2}, {1 << 19}}, 700);
    Textures nothing("k", "tex.1d.v4.f32.s32 {r0, r1, r2, r3}, [%t, {c0}];");
    nothing.run("k", 12345, std::vector<std::array<int, 4>>{{1}}, 700);
}

TEST(SoftgpuTexture, FormatsAndMissingChannels) {
    Textures textures(Textures::Kernels{
        {"f", "tex.1d.v4.f32.s32 {r0, r1, r2, r3}, [%t, {c0}];"},
        {"u", "tex.1d.v4.u32.s32 {r0, r1, r2, r3}, [%t, {c0}];"},
        {"h",
         "{ .reg .b16 h<4>; tex.1d.v4.f16.s32 {h0, h1, h2, h3}, [%t, {c0}]; cvt.u32.u16 r0, h0; cvt.u32.u16 r1, "
         "h1; cvt.u32.u16 r2, h2; cvt.u32.u16 r3, h3; }"},
        {"p", "tex.1d.v2.f16x2.s32 {r0, r1}, [%t, {c0}]; mov.b32 r2, 0; mov.b32 r3, 0;"}});
    const uint8_t bytes[16] = {0, 255, 128, 127, 1, 2, 3, 129, 0x00, 0x3c, 0x00, 0xc0, 0, 0, 0x80, 0x3f};
    TextureDescriptor d;
    d.shape = TextureShape::one;
    d.levels[0] = {reinterpret_cast<std::byte*>(const_cast<uint8_t*>(bytes)), 16, 1, 1, 16, 16};
    auto read = [&](const char* name, TexelType type, uint8_t channels, uint8_t element, bool integers, bool srgb, int index) {
        d.type = type;
        d.channels = channels;
        d.element_bytes = element;
        d.integer_reads = integers;
        d.srgb = srgb;
        uint64_t handle = add_texture(d);
        auto out = textures.run(name, handle, std::vector<std::array<int, 4>>{{index}});
        remove_texture(handle);
        return out[0];
    };
    auto floats = [](const std::array<uint32_t, 4>& row) {
        return std::array<float, 4>{as_float(row[0]), as_float(row[1]), as_float(row[2]), as_float(row[3])};
    };
    using F = std::array<float, 4>;
    using U = std::array<uint32_t, 4>;
    EXPECT_EQ(floats(read("f", TexelType::u8, 4, 4, false, false, 0)), (F{0, 1, 128 / 255.0f, 127 / 255.0f}));
    EXPECT_EQ(floats(read("f", TexelType::s8, 4, 4, false, false, 0)), (F{0, -1 / 127.0f, -1, 1}));
    EXPECT_EQ(floats(read("f", TexelType::u8, 2, 2, false, false, 2)), (F{1 / 255.0f, 2 / 255.0f, 0, 1}));
    EXPECT_EQ(floats(read("f", TexelType::unorm8, 1, 1, false, false, 3)), (F{127 / 255.0f, 0, 0, 1}));
    EXPECT_EQ(floats(read("f", TexelType::u16, 1, 2, false, false, 0)), (F{65280 / 65535.0f, 0, 0, 1}));
    EXPECT_EQ(floats(read("f", TexelType::f16, 2, 4, false, false, 2)), (F{1, -2, 0, 1}));
    EXPECT_EQ(floats(read("f", TexelType::f32, 1, 4, false, false, 3)), (F{1, 0, 0, 1}));
    EXPECT_EQ(read("u", TexelType::u8, 4, 4, true, false, 0), (U{0, 255, 128, 127}));
    EXPECT_EQ(read("u", TexelType::s8, 4, 4, true, false, 0), (U{0, uint32_t(-1), uint32_t(-128), 127}));
    EXPECT_EQ(read("u", TexelType::s16, 1, 2, true, false, 3), (U{0xffff8103u, 0, 0, 1}));
    EXPECT_EQ(read("u", TexelType::u32, 1, 4, true, false, 3), (U{0x3f800000u, 0, 0, 1}));
    EXPECT_EQ(read("h", TexelType::f32, 1, 4, false, false, 3), (U{0x3c00, 0, 0, 0x3c00}));
    EXPECT_EQ(read("p", TexelType::f16, 2, 4, false, false, 2), (U{0xc0003c00u, 0x3c000000u, 0, 0}));
    auto srgb = floats(read("f", TexelType::u8, 4, 4, false, true, 0));
    EXPECT_NEAR(srgb[2], std::pow((128 / 255.0 + 0.055) / 1.055, 2.4), 1e-6);
    EXPECT_EQ(srgb[1], 1.0f);
    EXPECT_EQ(srgb[3], 127 / 255.0f);
    EXPECT_NEAR(floats(read("f", TexelType::u8, 4, 4, false, true, 1))[0], 1 / 255.0 / 12.92, 1e-8);
}

/// Lanes that name one texture go together, lanes with textures of their own one by one: both give the same bits, with all
/// lanes and with some.
TEST(SoftgpuTexture, LanesTogetherAsOneByOne) {
    const std::string handle = "{ .reg .b64 h; .reg .pred p; mov.b64 h, {c2, c3}; setp.ne.u32 p, %r1, 3; ", end = " }";
    Textures textures(Textures::Kernels{
        {"f", handle + "tex.2d.v4.f32.f32 {r0, r1, r2, r3}, [h, {c0, c1}];" + end},
        {"some", handle +
                     "mov.b32 r0, 7; mov.b32 r1, 7; mov.b32 r2, 7; mov.b32 r3, 7; @p tex.2d.v4.f32.f32 {r0, r1, r2, r3}, "
                     "[h, {c0, c1}];" +
                     end}});
    std::mt19937 random(7);
    std::vector<uint32_t> memory(16 * 16 * 4);
    for (uint32_t& word : memory) word = random() & 0x3fffffffu;  // no NaN as float, and no byte or half left out
    TextureDescriptor d;
    d.shape = TextureShape::two;
    for (float& border : d.border) border = 0.25f;
    struct Format {
        TexelType type;
        uint8_t channels, element;
    };
    for (Format format : {Format{TexelType::u8, 1, 1},
                          {TexelType::u8, 2, 2},
                          {TexelType::u8, 4, 4},
                          {TexelType::s8, 1, 1},
                          {TexelType::s8, 4, 4},
                          {TexelType::u16, 1, 2},
                          {TexelType::u16, 2, 4},
                          {TexelType::s16, 1, 2},
                          {TexelType::s16, 4, 8},
                          {TexelType::unorm8, 4, 4},
                          {TexelType::snorm16, 2, 4},
                          {TexelType::f32, 1, 4},
                          {TexelType::f32, 2, 8},
                          {TexelType::f32, 4, 16}}) {
        d.type = format.type;
        d.channels = format.channels;
        d.element_bytes = format.element;
        d.levels[0] = {reinterpret_cast<std::byte*>(memory.data()), 13, 7, 1, 13u * format.element + 16u, 0};
        for (bool linear : {false, true}) {
            for (TextureAddress mode :
                 {TextureAddress::wrap, TextureAddress::clamp, TextureAddress::mirror, TextureAddress::border}) {
                d.linear_filter = linear;
                d.normalised_coordinates = mode == TextureAddress::wrap || mode == TextureAddress::mirror;
                for (auto& m : d.address) m = mode;
                const uint64_t handles[2] = {add_texture(d), add_texture(d)};
                std::vector<std::array<uint32_t, 4>> one, own;
                const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e30f, -1e30f, INFINITY, NAN};
                for (uint32_t i = 0; i < 64; ++i) {
                    float at[2];
                    for (float& c : at) c = float(int(random() % 4000) - 2000) / (d.normalised_coordinates ? 499.0f : 83.0f);
                    if (i < std::size(special)) at[i % 2] = special[i];
                    std::array<uint32_t, 4> row{};
                    std::memcpy(row.data(), at, sizeof at);
                    for (auto* rows : {&one, &own}) {
                        std::memcpy(&row[2], &handles[rows == &own ? i % 2 : 0], 8);
                        rows->push_back(row);
                    }
                }
                for (const char* kernel : {"f", "some"})
                    EXPECT_EQ(textures.run(kernel, 0, one), textures.run(kernel, 0, own))
                        << kernel << int(format.type) << " " << int(format.channels) << linear << int(mode);
                for (uint64_t made : handles) remove_texture(made);
            }
        }
    }
}

TEST(SoftgpuTexture, LayersAndOffsets) {
    Textures textures(
        {{"a1", "tex.a1d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}];"},
         {"a2", "tex.a2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1, c2, c3}];"},
         {"offset",
          "{ .reg .b32 o<2>; mov.b32 o0, 2; mov.b32 o1, -1; tex.2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}], {o0, o1}; }"}});
    auto bits = [](float value) {
        uint32_t b;
        std::memcpy(&b, &value, 4);
        return b;
    };
    Image lines(TextureShape::one_layered, 8, 1, 3);
    lines.d.layers = 3;
    auto one = textures.run("a1", lines.handle(),
                            std::vector<std::array<uint32_t, 4>>{{0, bits(1.5f)}, {2, bits(7.5f)}, {9, bits(0.5f)}});
    EXPECT_EQ(as_float(one[0][0]), lines.at(1, 0, 0));
    EXPECT_EQ(as_float(one[1][0]), lines.at(7, 0, 2));
    EXPECT_EQ(as_float(one[2][0]), lines.at(0, 0, 2));  // layers clamp
    Image planes(TextureShape::two_layered, 8, 4, 3);
    planes.d.layers = 3;
    auto two = textures.run("a2", planes.handle(),
                            std::vector<std::array<uint32_t, 4>>{{1, bits(1.5f), bits(3.5f)}, {2, bits(0.5f), bits(-3.5f)}});
    EXPECT_EQ(as_float(two[0][0]), planes.at(1, 3, 1));
    EXPECT_EQ(as_float(two[1][0]), planes.at(0, 0, 2));
    Image plane(TextureShape::two, 8, 4);
    auto moved = textures.run("offset", plane.handle(), std::vector<std::array<float, 4>>{{1.5f, 2.5f}});
    EXPECT_EQ(as_float(moved[0][0]), plane.at(3, 1));
}

TEST(SoftgpuTexture, Gather) {
    Textures textures(Textures::Kernels{{"r", "tld4.r.2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}];"},
                                        {"a", "tld4.a.2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}];"}});
    Image plane(TextureShape::two, 8, 4);
    auto out = textures.run("r", plane.handle(), std::vector<std::array<float, 4>>{{3.0f, 2.0f}, {0.2f, 0.2f}});
    EXPECT_EQ(as_float(out[0][0]), plane.at(2, 2));
    EXPECT_EQ(as_float(out[0][1]), plane.at(3, 2));
    EXPECT_EQ(as_float(out[0][2]), plane.at(3, 1));
    EXPECT_EQ(as_float(out[0][3]), plane.at(2, 1));
    EXPECT_EQ(as_float(out[1][3]), plane.at(0, 0));
    auto alpha = textures.run("a", plane.handle(), std::vector<std::array<float, 4>>{{3.0f, 2.0f}});
    EXPECT_EQ(as_float(alpha[0][0]), 1.0f);
}

/// The table of the Programming Guide: face, major axis, s, t.
TEST(SoftgpuTexture, CubeFaces) {
    Textures textures(Textures::Kernels{{"c", "tex.cube.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1, c2, c3}];"},
                                        {"ac", "tex.acube.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1, c2, c3}];"}});
    Image cube(TextureShape::cube, 4, 4, 6);
    cube.d.normalised_coordinates = true;
    // s and t of a direction whose major axis has length 1, face by face.
    auto direction = [](int face, float s, float t) -> std::array<float, 4> {
        switch (face) {
            case 0: return {1, -t, -s, 0};
            case 1: return {-1, -t, s, 0};
            case 2: return {s, 1, t, 0};
            case 3: return {s, -1, -t, 0};
            case 4: return {s, -t, 1, 0};
            default: return {-s, -t, -1, 0};
        }
    };
    std::vector<std::array<float, 4>> in;
    std::vector<float> expected;
    for (int face = 0; face < 6; ++face) {
        for (int y = 0; y < 4; ++y) {
            for (int x = 0; x < 4; ++x) {
                auto c = direction(face, (float(x) + 0.5f) / 2 - 1, (float(y) + 0.5f) / 2 - 1);
                for (float& v : c) v *= 3.5f;
                in.push_back(c);
                expected.push_back(cube.at(x, y, face));
            }
        }
    }
    auto out = textures.run("c", cube.handle(), in);
    for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(as_float(out[i][0]), expected[i]) << i;
    // Between the last texel of +x and the first of -z, where they meet.
    cube.d.linear_filter = cube.d.seamless_cube = true;
    auto seam = textures.run("c", cube.handle(), std::vector<std::array<float, 4>>{{1.0f, -0.25f * 0.99999f, -0.99999f, 0}});
    EXPECT_NEAR(as_float(seam[0][0]), (cube.at(3, 2, 0) + cube.at(0, 2, 5)) / 2, 0.6);
    Image cubes(TextureShape::cube_layered, 2, 2, 12);
    cubes.d.normalised_coordinates = true;
    cubes.d.layers = 2;
    float y = 5.0f;
    std::array<uint32_t, 4> row{1, 0, 0, 0};
    std::memcpy(&row[2], &y, 4);
    row[1] = 0xbf800000u;  // x = -1: the left half
    auto layered = textures.run("ac", cubes.handle(), std::vector<std::array<uint32_t, 4>>{row});
    EXPECT_EQ(as_float(layered[0][0]), cubes.at(0, 1, 6 + 2));
}

TEST(SoftgpuTexture, LevelsOfDetail) {
    Textures textures(
        Textures::Kernels{{"level", "tex.level.2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}], c2;"},
                          {"texel", "tex.level.2d.v4.f32.s32 {r0, r1, r2, r3}, [%t, {c0, c1}], c2;"},
                          {"grad", "tex.grad.2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}], {c2, c3}, {c3, c2};"},
                          {"base", "tex.2d.v4.f32.f32 {r0, r1, r2, r3}, [%t, {c0, c1}];"}});
    const float values[] = {10, 20, 30};
    std::vector<std::vector<float>> levels;
    TextureDescriptor d;
    d.shape = TextureShape::two;
    d.type = TexelType::f32;
    d.element_bytes = 4;
    d.normalised_coordinates = true;
    d.level_count = 3;
    d.max_level = 10;
    for (uint32_t l = 0; l < 3; ++l) {
        uint32_t size = 8u >> l;
        levels.emplace_back(size_t{size} * size, values[l]);
        d.levels[l] = {reinterpret_cast<std::byte*>(levels[l].data()), size, size, 1, size * 4u, size * size * 4u};
    }
    auto run = [&](const char* name, std::vector<std::array<float, 4>> in) {
        uint64_t handle = add_texture(d);
        auto rows = textures.run(name, handle, in);
        remove_texture(handle);
        std::vector<float> out;
        for (const auto& row : rows) out.push_back(as_float(row[0]));
        return out;
    };
    const std::vector<std::array<float, 4>> in{{.3f, .3f, 0},     {.3f, .3f, 0.4f}, {.3f, .3f, 0.6f},
                                               {.3f, .3f, 1.75f}, {.3f, .3f, 9},    {.3f, .3f, -3}};
    EXPECT_EQ(run("level", in), (std::vector<float>{10, 10, 20, 30, 30, 10}));
    d.linear_mipmaps = true;
    auto blended = run("level", in);
    EXPECT_NEAR(blended[1], 14, 0.03);
    EXPECT_EQ(blended[3], 27.5f);
    EXPECT_EQ(blended[4], 30.0f);
    d.level_bias = 1;
    EXPECT_EQ(run("level", {{.3f, .3f, 0.5f}})[0], 25.0f);
    d.level_bias = 0;
    d.max_level = 1;
    EXPECT_EQ(run("level", {{.3f, .3f, 5}})[0], 20.0f);
    d.min_level = 1;
    EXPECT_EQ(run("base", {{.3f, .3f}})[0], 20.0f);
    d.min_level = 0;
    d.max_level = 10;
    // With whole coordinates the level is a whole number, too.
    d.normalised_coordinates = d.linear_mipmaps = false;
    const uint64_t handle = add_texture(d);
    const std::vector<std::array<uint32_t, 4>> whole{{1, 1, 0, 0}, {1, 1, 1, 0}, {1, 1, 2, 0}, {1, 1, 5, 0}};
    const auto rows = textures.run("texel", handle, whole);
    remove_texture(handle);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(as_float(rows[i][0]), values[std::min<size_t>(i, 2)]) << i;
    d.normalised_coordinates = d.linear_mipmaps = true;
    // A step of a quarter of the texture is two texels of eight: level 1.
    EXPECT_EQ(run("grad", {{.3f, .3f, 0.25f, 0}})[0], 20.0f);
    EXPECT_EQ(run("grad", {{.3f, .3f, 0.125f, 0}})[0], 10.0f);
}

TEST(SoftgpuTexture, QueriesAndReferences) {
    std::string ptx = R"(
.global .texref plane;
.visible .entry k(.param .u64 t, .param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<12>; .reg .f32 %f<8>;
  ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [out];
  txq.width.b32 %r1, [%rd1];
  txq.height.b32 %r2, [%rd1];
  txq.channel_order.b32 %r3, [%rd1];
  txq.channel_data_type.b32 %r4, [%rd1];
  st.global.v4.b32 [%rd2], {%r1, %r2, %r3, %r4};
  mov.f32 %f1, 0f40200000; mov.f32 %f2, 0f3FC00000;
  tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [plane, {%f1, %f2}];
  st.global.f32 [%rd2+16], %f3;
  txq.width.b32 %r1, [plane];
  st.global.b32 [%rd2+20], %r1;
  ret;
}
)";
    Device device;
    auto module = load_checked(device, ptx, "sm_80", "8.0");
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(module->texrefs(), std::vector<std::string>{"plane"});
    Image image(TextureShape::two, 8, 4);
    uint64_t handle = image.handle(), out = device.allocate(24);
    const GlobalInfo* reference = module->global("plane");
    ASSERT_NE(reference, nullptr);
    EXPECT_EQ(device.launch(*module, "k", {}, handle, out).cu_result, 700);  // nothing is bound yet
    Device bound;
    auto again = bound.load(".version 8.0\n.target sm_80\n.address_size 64\n" + ptx);
    ASSERT_NE(again, nullptr);
    std::memcpy(reinterpret_cast<void*>(again->global("plane")->address), &handle, 8);
    out = bound.allocate(24);
    EXPECT_RUNS(bound.launch(*again, "k", {}, handle, out));
    auto words = bound.download<uint32_t>(out, 6);
    EXPECT_EQ((std::vector<uint32_t>{words.begin(), words.begin() + 4}), (std::vector<uint32_t>{8, 4, 0x10b0, 0x10de}));
    EXPECT_EQ(as_float(words[4]), image.at(2, 1));
    EXPECT_EQ(words[5], 8u);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
