// Programs register their images with libcudart when they are loaded. This test stands in for it and sees what a program really
// hands over: the wrapper, and the names and sizes that nvcc gave the host side, which the image must confirm.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "samples.h"

namespace {

struct Registered {
    std::vector<const void*> wrappers;
    std::vector<std::string> kernels;
    std::map<std::string, size_t> variables;
};
Registered* g_registered = nullptr;
void* g_handle = nullptr;

}  // namespace

#define WL_SEEN_BY_SAMPLES extern "C" __attribute__((visibility("default")))
WL_SEEN_BY_SAMPLES void** __cudaRegisterFatBinary(void* wrapper) {
    g_registered->wrappers.push_back(wrapper);
    return &g_handle;
}
WL_SEEN_BY_SAMPLES void __cudaRegisterFatBinaryEnd(void**) {}
WL_SEEN_BY_SAMPLES void __cudaUnregisterFatBinary(void**) {}
WL_SEEN_BY_SAMPLES char __cudaInitModule(void**) { return 1; }
WL_SEEN_BY_SAMPLES void __cudaRegisterFunction(void**, const char*, char*, const char* name, int, void*, void*, void*, void*,
                                               int*) {
    g_registered->kernels.push_back(name);
}
WL_SEEN_BY_SAMPLES void __cudaRegisterVar(void**, char*, char*, const char* name, int, size_t size, int, int) {
    g_registered->variables[name] = size;
}
WL_SEEN_BY_SAMPLES void __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, size_t size, int, int) {
    g_registered->variables[name] = size;
}

namespace warpline::cuda::image {
namespace {

class Sample {
public:
    explicit Sample(const char* name) {
        g_registered = &registered;
        m_library = dlopen((samples_folder() + "/" + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
        EXPECT_NE(m_library, nullptr) << dlerror();
    }
    ~Sample() {
        if (m_library != nullptr) dlclose(m_library);
    }
    Registered registered;

private:
    void* m_library = nullptr;
};

void check_registered(const ImageInfo& info, const Registered& registered) {
    EXPECT_EQ(registered.kernels.size(), expected_kernels().size());
    for (const std::string& name : registered.kernels) EXPECT_NE(info.find_kernel(name), nullptr) << name;
    EXPECT_EQ(registered.variables.size(), 5u);
    for (const auto& [name, size] : registered.variables) {
        const Global* global = info.find_global(name);
        ASSERT_NE(global, nullptr) << name;
        EXPECT_EQ(global->size_bytes, size) << name;
    }
}

TEST(Wrapper, PlainProgram) {
    Sample sample("default.so");
    ASSERT_EQ(sample.registered.wrappers.size(), 1u);
    auto image = Image::from_pointer(sample.registered.wrappers[0]);
    ASSERT_TRUE(image.ok()) << image.error().what;
    EXPECT_EQ(image->parts().size(), 1u);
    const Entry* cubin = image->select(75);
    ASSERT_NE(cubin, nullptr);
    EXPECT_EQ(cubin->kind, EntryKind::cubin);
    const Entry* ptx = image->select_ptx(121);
    ASSERT_NE(ptx, nullptr);
    EXPECT_EQ(image->select(90), ptx) << "nvcc without -arch: other devices compile the PTX";
    for (const Entry* entry : {cubin, ptx}) {
        auto info = read_info(*entry);
        ASSERT_TRUE(info.ok()) << info.error().what;
        check_info(*info);
        check_registered(*info, sample.registered);
        EXPECT_FALSE(info->relocatable);
    }
}

TEST(Wrapper, SassOnlyProgramHasNothingForTheSoftwareGpu) {
    Sample sample("sass_only.so");
    ASSERT_EQ(sample.registered.wrappers.size(), 1u);
    auto image = Image::from_pointer(sample.registered.wrappers[0]);
    ASSERT_TRUE(image.ok()) << image.error().what;
    EXPECT_EQ(image->select_ptx(121), nullptr);
    EXPECT_EQ(image->select(90), nullptr);
    EXPECT_NE(image->select(86), nullptr);
}

TEST(Wrapper, RelocatableProgramIsLinkedAndKeepsItsUnits) {
    Sample sample("rdc.so");
    ASSERT_EQ(sample.registered.wrappers.size(), 1u);
    auto image = Image::from_pointer(sample.registered.wrappers[0]);
    ASSERT_TRUE(image.ok()) << image.error().what;
    ASSERT_GE(image->parts().size(), 2u);
    const Entry* linked = image->select(80);
    ASSERT_NE(linked, nullptr);
    EXPECT_FALSE(linked->relocatable);
    auto info = read_info(*linked);
    ASSERT_TRUE(info.ok()) << info.error().what;
    EXPECT_FALSE(info->relocatable);
    check_info(*info);
    check_registered(*info, sample.registered);
    EXPECT_EQ(image->select_ptx(121), nullptr);
    auto units = image->select_linkable_ptx(121);
    ASSERT_EQ(units.size(), image->parts().size() - 1);
    auto unit = read_info(*units[0]);
    ASSERT_TRUE(unit.ok()) << unit.error().what;
    EXPECT_TRUE(unit->relocatable);
    check_info(*unit);
}

TEST(Wrapper, RelocatablePtxOnlyProgram) {
    Sample sample("rdc_ptx.so");
    ASSERT_EQ(sample.registered.wrappers.size(), 1u);
    auto image = Image::from_pointer(sample.registered.wrappers[0]);
    ASSERT_TRUE(image.ok()) << image.error().what;
    EXPECT_EQ(image->select(80) != nullptr || !image->select_linkable_ptx(121).empty(), true);
    ASSERT_FALSE(image->select_linkable_ptx(121).empty());
}

TEST(Wrapper, OwnedImageOutlivesTheProgram) {
    Result<Image> image = Error{};
    {
        Sample sample("default.so");
        image = Image::from_pointer(sample.registered.wrappers.at(0));
        ASSERT_TRUE(image.ok());
        ASSERT_TRUE(image->own().ok());
    }
    auto info = read_info(*image->select(75));
    ASSERT_TRUE(info.ok());
    check_info(*info);
}

}  // namespace
}  // namespace warpline::cuda::image
