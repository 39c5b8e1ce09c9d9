// Texture and surface references, which old PTX has and the driver's interface still binds: each property is set and asked for,
// and seen in what a kernel reads.
#include <array>

#include "driver_calls.h"

// in: four words for each thread, the coordinates (and the level); out: what was read, four words for each thread.
static const char k_text[] = R"(.version 7.0
.target sm_75
.address_size 64
.global .texref line;
.global .texref plane;
.global .surfref board;
.visible .entry fetch(.param .u64 in, .param .u64 out) {
  .reg .b64 %i<4>; .reg .b32 %t, c<4>; .reg .b32 r<4>;
  ld.param.u64 %i0, [in]; ld.param.u64 %i1, [out];
  mov.u32 %t, %tid.x; mul.wide.u32 %i2, %t, 16;
  add.s64 %i0, %i0, %i2; add.s64 %i1, %i1, %i2;
  ld.global.v4.b32 {c0, c1, c2, c3}, [%i0];
  tex.1d.v4.f32.s32 {r0, r1, r2, r3}, [line, {c0}];
  st.global.v4.b32 [%i1], {r0, r1, r2, r3};
  ret;
}
.visible .entry fetch_integers(.param .u64 in, .param .u64 out) {
  .reg .b64 %i<4>; .reg .b32 %t, c<4>; .reg .b32 r<4>;
  ld.param.u64 %i0, [in]; ld.param.u64 %i1, [out];
  mov.u32 %t, %tid.x; mul.wide.u32 %i2, %t, 16;
  add.s64 %i0, %i0, %i2; add.s64 %i1, %i1, %i2;
  ld.global.v4.b32 {c0, c1, c2, c3}, [%i0];
  tex.1d.v4.u32.s32 {r0, r1, r2, r3}, [line, {c0}];
  st.global.v4.b32 [%i1], {r0, r1, r2, r3};
  ret;
}
.visible .entry sample(.param .u64 in, .param .u64 out) {
  .reg .b64 %i<4>; .reg .b32 %t; .reg .f32 c<4>; .reg .b32 r<4>;
  ld.param.u64 %i0, [in]; ld.param.u64 %i1, [out];
  mov.u32 %t, %tid.x; mul.wide.u32 %i2, %t, 16;
  add.s64 %i0, %i0, %i2; add.s64 %i1, %i1, %i2;
  ld.global.v4.f32 {c0, c1, c2, c3}, [%i0];
  tex.2d.v4.f32.f32 {r0, r1, r2, r3}, [plane, {c0, c1}];
  st.global.v4.b32 [%i1], {r0, r1, r2, r3};
  ret;
}
.visible .entry sample_level(.param .u64 in, .param .u64 out) {
  .reg .b64 %i<4>; .reg .b32 %t; .reg .f32 c<4>; .reg .b32 r<4>;
  ld.param.u64 %i0, [in]; ld.param.u64 %i1, [out];
  mov.u32 %t, %tid.x; mul.wide.u32 %i2, %t, 16;
  add.s64 %i0, %i0, %i2; add.s64 %i1, %i1, %i2;
  ld.global.v4.f32 {c0, c1, c2, c3}, [%i0];
  tex.level.2d.v4.f32.f32 {r0, r1, r2, r3}, [plane, {c0, c1}], c2;
  st.global.v4.b32 [%i1], {r0, r1, r2, r3};
  ret;
}
.visible .entry paint(.param .u64 in, .param .u64 out) {
  .reg .b64 %i<3>; .reg .b32 %t, c<4>;
  ld.param.u64 %i0, [in];
  mov.u32 %t, %tid.x; mul.wide.u32 %i2, %t, 16;
  add.s64 %i0, %i0, %i2;
  ld.global.v4.b32 {c0, c1, c2, c3}, [%i0];
  shl.b32 c0, c0, 2;
  sust.b.2d.b32.trap [board, {c0, c1}], {c2};
  ret;
}
)";

union Word {
    float f;
    int i;
    unsigned u;
};
using Words = std::vector<std::array<Word, 4>>;

static CUmodule g_module;

/// What a kernel of the module makes of `in`, a thread for each four words.
static Words run(const char* name, const Words& in) {
    CUfunction function;
    DRIVER(cuModuleGetFunction(&function, g_module, name));
    DeviceArray<std::array<Word, 4>> from(in), to(in.size());
    CUdeviceptr addresses[] = {reinterpret_cast<CUdeviceptr>(from.data()), reinterpret_cast<CUdeviceptr>(to.data())};
    void* arguments[] = {&addresses[0], &addresses[1]};
    DRIVER(cuLaunchKernel(function, 1, 1, 1, static_cast<unsigned>(in.size()), 1, 1, 0, nullptr, arguments, nullptr));
    return to.download();
}

static std::array<Word, 4> whole(int x, int y = 0, int value = 0) { return {{{.i = x}, {.i = y}, {.i = value}, {.i = 0}}}; }
static std::array<Word, 4> at(float x, float y, float level = 0) { return {{{.f = x}, {.f = y}, {.f = level}, {.f = 0}}}; }

static float sampled(float x, float y) { return run("sample", {at(x, y)})[0][0].f; }
static float sampled_level(float level) { return run("sample_level", {at(0.5f, 0.5f, level)})[0][0].f; }

static CUtexref reference(const char* name) {
    CUtexref found;
    DRIVER(cuModuleGetTexRef(&found, g_module, name));
    return found;
}

// Of a reference that belongs to no module.
static void properties() {
    CUtexref made;
    DRIVER(cuTexRefCreate(&made));
    const CUaddress_mode modes[] = {CU_TR_ADDRESS_MODE_BORDER, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_MIRROR};
    for (int i = 0; i < 3; ++i) DRIVER(cuTexRefSetAddressMode(made, i, modes[i]));
    for (int i = 0; i < 3; ++i) {
        CUaddress_mode mode;
        DRIVER(cuTexRefGetAddressMode(&mode, made, i));
        EXPECT(mode == modes[i]);
    }
    for (CUfilter_mode wanted : {CU_TR_FILTER_MODE_LINEAR, CU_TR_FILTER_MODE_POINT}) {
        const CUfilter_mode other = wanted == CU_TR_FILTER_MODE_POINT ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
        CUfilter_mode mode;
        DRIVER(cuTexRefSetFilterMode(made, wanted));
        DRIVER(cuTexRefSetMipmapFilterMode(made, other));
        DRIVER(cuTexRefGetFilterMode(&mode, made));
        EXPECT(mode == wanted);
        DRIVER(cuTexRefGetMipmapFilterMode(&mode, made));
        EXPECT(mode == other);
    }
    float bias = 0, lowest = 0, highest = 0;
    DRIVER(cuTexRefSetMipmapLevelBias(made, 1.5f));
    DRIVER(cuTexRefSetMipmapLevelClamp(made, 0.25f, 7.75f));
    DRIVER(cuTexRefGetMipmapLevelBias(&bias, made));
    DRIVER(cuTexRefGetMipmapLevelClamp(&lowest, &highest, made));
    EXPECT(bias == 1.5f && lowest == 0.25f && highest == 7.75f);
    int anisotropy = -1;
    DRIVER(cuTexRefSetMaxAnisotropy(made, 4));
    DRIVER(cuTexRefGetMaxAnisotropy(&anisotropy, made));
    EXPECT_EQ(anisotropy, 4);
    float border[] = {1, 2, 3, 4}, found[4] = {};
    DRIVER(cuTexRefSetBorderColor(made, border));
    DRIVER(cuTexRefGetBorderColor(found, made));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(found[i], border[i]);
    for (unsigned wanted : {CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES, 0}) {
        unsigned flags = 77;
        DRIVER(cuTexRefSetFlags(made, wanted));
        DRIVER(cuTexRefGetFlags(&flags, made));
        EXPECT_EQ(flags, wanted);
    }
    CUarray_format format;
    int channels = 0;
    DRIVER(cuTexRefSetFormat(made, CU_AD_FORMAT_UNSIGNED_INT16, 2));
    DRIVER(cuTexRefGetFormat(&format, &channels, made));
    EXPECT(format == CU_AD_FORMAT_UNSIGNED_INT16 && channels == 2);
    // Two references do not share what they have.
    CUtexref other;
    DRIVER(cuTexRefCreate(&other));
    DRIVER(cuTexRefSetMaxAnisotropy(other, 9));
    DRIVER(cuTexRefGetMaxAnisotropy(&anisotropy, made));
    EXPECT_EQ(anisotropy, 4);
    DRIVER(cuTexRefDestroy(made));
    DRIVER(cuTexRefGetMaxAnisotropy(&anisotropy, other));
    EXPECT_EQ(anisotropy, 9);
    DRIVER(cuTexRefDestroy(other));
    REFUSED(cuTexRefDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
    REFUSED(cuTexRefCreate(nullptr), CUDA_ERROR_INVALID_VALUE);
}

static void names() {
    CUtexref none;
    CUsurfref nowhere;
    REFUSED(cuModuleGetTexRef(&none, g_module, "elsewhere"), CUDA_ERROR_NOT_FOUND);
    REFUSED(cuModuleGetSurfRef(&nowhere, g_module, "elsewhere"), CUDA_ERROR_NOT_FOUND);
}

// Linear memory: of floats, from an address between those that a texture may begin at, and of bytes, normalised and as they
// are.
static void linear_memory() {
    constexpr int k_count = 200;
    std::vector<float> values(k_count);
    for (int i = 0; i < k_count; ++i) values[i] = static_cast<float>(3 * i) - 100;
    DeviceArray<float> memory(values);
    const auto base = reinterpret_cast<CUdeviceptr>(memory.data());
    const CUtexref line = reference("line");
    const Words in = {whole(0), whole(1), whole(17), whole(99)};
    DRIVER(cuTexRefSetFormat(line, CU_AD_FORMAT_FLOAT, 1));
    int alignment = 0;
    DRIVER(cuDeviceGetAttribute(&alignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0));
    for (size_t first : {size_t{0}, size_t{2}}) {
        size_t offset = 77;
        DRIVER(cuTexRefSetAddress(&offset, line, base + first * sizeof(float), k_count / 2 * sizeof(float)));
        EXPECT_EQ(offset, (base + first * sizeof(float)) % static_cast<size_t>(alignment));
        CUdeviceptr bound = 0;
        DRIVER(cuTexRefGetAddress(&bound, line));
        EXPECT(bound == base + first * sizeof(float) || bound == base + first * sizeof(float) - offset);
        Words from = in;
        for (auto& words : from) words[0].i += static_cast<int>(offset / sizeof(float));
        const Words out = run("fetch", from);
        for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i][0].f, values[in[i][0].i + first]);
    }
    std::vector<unsigned char> colours(4 * 8);
    for (size_t i = 0; i < colours.size(); ++i) colours[i] = static_cast<unsigned char>(255 - 7 * i);
    DeviceArray<unsigned char> bytes(colours);
    DRIVER(cuTexRefSetFormat(line, CU_AD_FORMAT_UNSIGNED_INT8, 4));
    for (bool integers : {false, true}) {
        DRIVER(cuTexRefSetFlags(line, integers ? CU_TRSF_READ_AS_INTEGER : 0));
        DRIVER(cuTexRefSetAddress(nullptr, line, reinterpret_cast<CUdeviceptr>(bytes.data()), colours.size()));
        const Words out = run(integers ? "fetch_integers" : "fetch", {whole(0), whole(5)});
        for (int channel = 0; channel < 4; ++channel) {
            const unsigned char first = colours[channel], fifth = colours[4 * 5 + channel];
            if (integers) EXPECT(out[0][channel].u == first && out[1][channel].u == fifth);
            if (!integers) EXPECT(std::fabs(out[0][channel].f - first / 255.0f) < 1e-6f);
            if (!integers) EXPECT(std::fabs(out[1][channel].f - fifth / 255.0f) < 1e-6f);
        }
    }
    DRIVER(cuTexRefSetAddress(nullptr, line, 0, 0));  // what was bound is so no more
}

static constexpr int k_width = 8, k_height = 4;
static float texel(int x, int y) { return static_cast<float>(10 * y + x); }

static std::vector<float> texels() {
    std::vector<float> values;
    for (int y = 0; y < k_height; ++y)
        for (int x = 0; x < k_width; ++x) values.push_back(texel(x, y));
    return values;
}

static CUarray array_of(int width, int height, unsigned flags = 0) {
    CUDA_ARRAY3D_DESCRIPTOR description{};
    description.Width = width, description.Height = height;
    description.Format = CU_AD_FORMAT_FLOAT, description.NumChannels = 1, description.Flags = flags;
    CUarray array;
    DRIVER(cuArray3DCreate(&array, &description));
    return array;
}

static CUDA_MEMCPY2D rows_of(float* values, int width, int height, CUarray array, bool from_array) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = from_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
    copy.dstMemoryType = from_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    copy.srcArray = copy.dstArray = array;
    copy.srcHost = copy.dstHost = values;
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = width * sizeof(float);
    copy.Height = height;
    return copy;
}

/// What a reference is bound to lives until it is bound to something else: the caller frees it.
static CUdeviceptr pitched_memory() {
    std::vector<float> values = texels();
    CUdeviceptr memory;
    size_t pitch = 0;
    DRIVER(cuMemAllocPitch(&memory, &pitch, k_width * sizeof(float), k_height, 4));
    EXPECT(pitch >= k_width * sizeof(float));
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = values.data();
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = memory, copy.dstPitch = pitch;
    copy.srcPitch = copy.WidthInBytes = k_width * sizeof(float), copy.Height = k_height;
    DRIVER(cuMemcpy2D(&copy));
    const CUtexref plane = reference("plane");
    CUDA_ARRAY_DESCRIPTOR description{k_width, k_height, CU_AD_FORMAT_FLOAT, 1};
    for (int i = 0; i < 2; ++i) DRIVER(cuTexRefSetAddressMode(plane, i, CU_TR_ADDRESS_MODE_CLAMP));
    DRIVER(cuTexRefSetFilterMode(plane, CU_TR_FILTER_MODE_POINT));
    DRIVER(cuTexRefSetAddress2D(plane, &description, memory, pitch));
    CUdeviceptr bound = 0;
    DRIVER(cuTexRefGetAddress(&bound, plane));
    EXPECT(bound == memory);
    EXPECT_EQ(sampled(2.5f, 1.5f), texel(2, 1));
    EXPECT_EQ(sampled(-3, 9), texel(0, k_height - 1));
    DRIVER(cuTexRefSetFilterMode(plane, CU_TR_FILTER_MODE_LINEAR));
    DRIVER(cuTexRefSetAddress2D(plane, &description, memory, pitch));
    EXPECT_EQ(sampled(3, 2), (texel(2, 1) + texel(3, 1) + texel(2, 2) + texel(3, 2)) / 4);
    return memory;
}

/// cuda.h: "Override the texref format with a format inferred from the array."
static void expect_format_of_array(CUtexref reference) {
    CUarray_format format;
    int channels = 0;
    DRIVER(cuTexRefGetFormat(&format, &channels, reference));
    EXPECT(format == CU_AD_FORMAT_FLOAT && channels == 1);
    DRIVER(cuTexRefSetFormat(reference, CU_AD_FORMAT_UNSIGNED_INT16, 2));
}

static CUarray arrays() {
    std::vector<float> values = texels();
    const CUarray array = array_of(k_width, k_height);
    const CUDA_MEMCPY2D copy = rows_of(values.data(), k_width, k_height, array, false);
    DRIVER(cuMemcpy2D(&copy));
    const CUtexref plane = reference("plane");
    float border[] = {-5, 0, 0, 0};
    DRIVER(cuTexRefSetFilterMode(plane, CU_TR_FILTER_MODE_POINT));
    DRIVER(cuTexRefSetBorderColor(plane, border));
    for (int i = 0; i < 2; ++i) DRIVER(cuTexRefSetAddressMode(plane, i, CU_TR_ADDRESS_MODE_BORDER));
    DRIVER(cuTexRefSetFormat(plane, CU_AD_FORMAT_UNSIGNED_INT16, 2));
    DRIVER(cuTexRefSetArray(plane, array, CU_TRSA_OVERRIDE_FORMAT));
    expect_format_of_array(plane);
    DRIVER(cuTexRefSetArray(plane, array, CU_TRSA_OVERRIDE_FORMAT));
    EXPECT_EQ(sampled(5.5f, 2.5f), texel(5, 2));
    EXPECT_EQ(sampled(-0.5f, 2.5f), -5);
    EXPECT_EQ(sampled(5.5f, k_height + 0.5f), -5);
    // Coordinates of which 1 is a whole side, repeated in one direction and clamped in the other.
    DRIVER(cuTexRefSetFlags(plane, CU_TRSF_NORMALIZED_COORDINATES));
    DRIVER(cuTexRefSetAddressMode(plane, 0, CU_TR_ADDRESS_MODE_WRAP));
    DRIVER(cuTexRefSetAddressMode(plane, 1, CU_TR_ADDRESS_MODE_CLAMP));
    DRIVER(cuTexRefSetArray(plane, array, CU_TRSA_OVERRIDE_FORMAT));
    EXPECT_EQ(sampled(1 + 2.5f / k_width, 1.5f / k_height), texel(2, 1));
    EXPECT_EQ(sampled(2.5f / k_width, 1 + 1.5f / k_height), texel(2, k_height - 1));
    return array;
}

// A pyramid whose levels are of one value each: level 0 of 100, 1 of 200, 2 of 300.
static CUmipmappedArray levels() {
    CUDA_ARRAY3D_DESCRIPTOR description{};
    description.Width = description.Height = 4;
    description.Format = CU_AD_FORMAT_FLOAT, description.NumChannels = 1;
    CUmipmappedArray pyramid;
    DRIVER(cuMipmappedArrayCreate(&pyramid, &description, 3));
    for (int i = 0; i < 3; ++i) {
        CUarray level;
        DRIVER(cuMipmappedArrayGetLevel(&level, pyramid, i));
        std::vector<float> values((4 >> i) * (4 >> i), 100.0f * (i + 1));
        const CUDA_MEMCPY2D copy = rows_of(values.data(), 4 >> i, 4 >> i, level, false);
        DRIVER(cuMemcpy2D(&copy));
    }
    const CUtexref plane = reference("plane");
    auto bind = [&](CUfilter_mode filter, float bias, float lowest, float highest) {
        DRIVER(cuTexRefSetFlags(plane, CU_TRSF_NORMALIZED_COORDINATES));
        DRIVER(cuTexRefSetMipmapFilterMode(plane, filter));
        DRIVER(cuTexRefSetMipmapLevelBias(plane, bias));
        DRIVER(cuTexRefSetMipmapLevelClamp(plane, lowest, highest));
        DRIVER(cuTexRefSetMipmappedArray(plane, pyramid, CU_TRSA_OVERRIDE_FORMAT));
    };
    DRIVER(cuTexRefSetFormat(plane, CU_AD_FORMAT_UNSIGNED_INT16, 2));
    bind(CU_TR_FILTER_MODE_POINT, 0, 0, 2);
    expect_format_of_array(plane);
    bind(CU_TR_FILTER_MODE_POINT, 0, 0, 2);
    EXPECT(sampled_level(0) == 100 && sampled_level(1) == 200 && sampled_level(2) == 300 && sampled_level(0.25f) == 100);
    bind(CU_TR_FILTER_MODE_LINEAR, 0, 0, 2);
    EXPECT(sampled_level(0.25f) == 125 && sampled_level(1.5f) == 250);
    bind(CU_TR_FILTER_MODE_POINT, 1, 0, 2);
    EXPECT(sampled_level(0) == 200 && sampled_level(1) == 300);
    bind(CU_TR_FILTER_MODE_POINT, 0, 1, 1);
    EXPECT(sampled_level(0) == 200 && sampled_level(2) == 200);
    return pyramid;
}

static CUarray surfaces() {
    std::vector<float> values(k_width * k_height, 0.0f), back(k_width * k_height);
    const CUarray board = array_of(k_width, k_height, CUDA_ARRAY3D_SURFACE_LDST),
                  other = array_of(k_width, k_height, CUDA_ARRAY3D_SURFACE_LDST);
    for (CUarray array : {board, other}) {
        const CUDA_MEMCPY2D copy = rows_of(values.data(), k_width, k_height, array, false);
        DRIVER(cuMemcpy2D(&copy));
    }
    CUsurfref surface;
    DRIVER(cuModuleGetSurfRef(&surface, g_module, "board"));
    auto paint = [](int x, int y, float value) {
        auto words = whole(x, y);
        words[2].f = value;
        run("paint", {words});
    };
    DRIVER(cuSurfRefSetArray(surface, board, 0));
    paint(2, 3, 7.5f);
    DRIVER(cuSurfRefSetArray(surface, other, 0));
    paint(5, 1, 9.5f);
    for (CUarray array : {board, other}) {
        const CUDA_MEMCPY2D copy = rows_of(back.data(), k_width, k_height, array, true);
        DRIVER(cuMemcpy2D(&copy));
        for (int i = 0; i < k_width * k_height; ++i) {
            const bool painted = i == (array == board ? 3 * k_width + 2 : k_width + 5);
            EXPECT_EQ(back[i], painted ? (array == board ? 7.5f : 9.5f) : 0.0f);
        }
    }
    DRIVER(cuSurfRefSetArray(surface, board, 0));
    DRIVER(cuArrayDestroy(other));
    return board;
}

int main() {
    CHECK(cudaFree(nullptr));
    DRIVER(cuModuleLoadData(&g_module, k_text));
    properties();
    names();
    linear_memory();
    const CUdeviceptr memory = pitched_memory();
    const CUarray array = arrays();
    const CUmipmappedArray pyramid = levels();
    const CUarray board = surfaces();
    DRIVER(cuModuleUnload(g_module));
    DRIVER(cuMemFree(memory));
    for (CUarray bound : {array, board}) DRIVER(cuArrayDestroy(bound));
    DRIVER(cuMipmappedArrayDestroy(pyramid));
    return passed("texture references");
}
