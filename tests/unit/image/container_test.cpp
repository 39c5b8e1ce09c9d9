// Images as nvcc 13 makes them.
#include <gtest/gtest.h>

#include "samples.h"

namespace warpline::cuda::image {
namespace {

class CompressMode : public testing::TestWithParam<const char*> {};

TEST_P(CompressMode, EveryEntryDescribesTheSameKernels) {
    Bytes fatbin = read_sample(std::string("compress_") + GetParam() + ".fatbin");
    auto image = Image::from_bytes(fatbin);
    ASSERT_TRUE(image.ok()) << image.error().what;
    ASSERT_EQ(image->entries().size(), 2u);
    for (const Entry& entry : image->entries()) {
        SCOPED_TRACE(entry.kind == EntryKind::ptx ? "ptx" : "cubin");
        EXPECT_EQ(entry.arch, 80u);
        auto info = read_info(entry);
        ASSERT_TRUE(info.ok()) << info.error().what;
        EXPECT_EQ(info->arch, 80u);
        check_info(*info);
    }
    bool packed = image->entries()[0].compression != Compression::none || image->entries()[1].compression != Compression::none;
    EXPECT_EQ(packed, std::string(GetParam()) != "none");
}
INSTANTIATE_TEST_SUITE_P(Nvcc, CompressMode, testing::Values("none", "speed", "size", "balance"),
                         [](const auto& info) { return info.param; });

TEST(NvccImage, AllMajorHasACubinPerMajorVersionAndOnePtx) {
    Bytes fatbin = read_sample("all_major.fatbin");
    auto image = Image::from_bytes(fatbin);
    ASSERT_TRUE(image.ok()) << image.error().what;
    EXPECT_GE(image->entries().size(), 6u);
    for (const Entry& entry : image->entries()) {
        SCOPED_TRACE(entry.arch);
        auto info = read_info(entry);
        ASSERT_TRUE(info.ok()) << info.error().what;
        EXPECT_EQ(info->arch, entry.arch);
        check_info(*info);
    }
    for (uint32_t capability : {75u, 80u, 86u, 89u, 90u, 100u, 103u, 120u, 121u}) {
        const Entry* entry = image->select(capability);
        ASSERT_NE(entry, nullptr) << capability;
        EXPECT_EQ(entry->kind, EntryKind::cubin) << capability;
        EXPECT_EQ(entry->arch / 10, capability == 75 ? 7u : capability / 10);
    }
    ASSERT_NE(image->select_ptx(121), nullptr);
    EXPECT_EQ(image->select_ptx(121)->arch, 120u);
}

TEST(NvccImage, SpecificArchitectures) {
    Bytes fatbin = read_sample("specific.fatbin");
    auto image = Image::from_bytes(fatbin);
    ASSERT_TRUE(image.ok()) << image.error().what;
    EXPECT_TRUE(image->select(90)->arch_specific);
    EXPECT_EQ(image->select(90)->kind, EntryKind::cubin);
    EXPECT_EQ(image->select(89)->kind, EntryKind::ptx);
    EXPECT_EQ(image->select(89)->arch, 80u);
    EXPECT_TRUE(image->select(103)->family_specific);
    EXPECT_EQ(image->select(120)->arch, 80u) << "neither sm_90a nor sm_100f run there";
    EXPECT_EQ(image->select_ptx(121)->arch, 80u);
}

TEST(NvccImage, BareCubinFromPointerHasTheFilesSize) {
    for (const char* name : {"sm_75.cubin", "sm_80.cubin", "sm_90.cubin", "sm_100.cubin", "sm_120.cubin",
                             "relocatable_80.cubin", "relocatable_100.cubin"}) {
        SCOPED_TRACE(name);
        Bytes cubin = read_sample(name);
        auto image = Image::from_pointer(cubin.data());
        ASSERT_TRUE(image.ok()) << image.error().what;
        EXPECT_EQ(image->container(), Container::cubin);
        EXPECT_EQ(image->bytes().size(), cubin.size());
        ASSERT_EQ(image->entries().size(), 1u);
        std::string digits = std::string(name).substr(std::string(name).find('_') + 1);
        EXPECT_EQ(image->entries()[0].arch, std::stoul(digits));
        EXPECT_TRUE(Image::from_bytes(cubin).ok());
    }
}

}  // namespace
}  // namespace warpline::cuda::image
