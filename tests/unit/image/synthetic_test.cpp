// Containers made by hand: what nvcc does not make at will, and machines without nvcc.
#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include "cuda/image/container.h"
#include "samples.h"

namespace warpline::cuda::image {
namespace {

constexpr std::string_view k_ptx =
    ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n ret;\n}\n";

TestEntry ptx_entry(uint32_t arch, uint64_t flags = 0x11) {
    return {.kind = 1, .arch = arch, .flags = flags, .payload = to_bytes(k_ptx)};
}
TestEntry cubin_entry(uint32_t arch, uint64_t flags = 0x11) {
    return {.kind = 2, .arch = arch, .flags = flags, .payload = to_bytes("\177ELF not really")};
}

TestEntry packed(TestEntry entry, Compression compression) {
    Bytes raw = entry.payload;
    Bytes out(2 * raw.size() + 1024);
    if (compression == Compression::zstd) {
        out.resize(ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 3));
        entry.flags |= k_flag_zstd;
    } else {
        out.resize(LZ4_compress_default(reinterpret_cast<char*>(raw.data()), reinterpret_cast<char*>(out.data()),
                                        static_cast<int>(raw.size()), static_cast<int>(out.size())));
        entry.flags |= k_flag_lz4;
    }
    entry.compressed_bytes = static_cast<uint32_t>(out.size());
    entry.raw_bytes = raw.size();
    entry.payload = out;
    return entry;
}

TEST(Image, EntriesOfAllCompressionsGiveTheSameText) {
    TestEntry long_header = ptx_entry(75);
    long_header.header_bytes = 112;
    Bytes fatbin = make_fatbin(
        {ptx_entry(75), packed(ptx_entry(75), Compression::zstd), packed(ptx_entry(75), Compression::lz4), long_header});
    auto image = Image::from_bytes(fatbin);
    ASSERT_TRUE(image.ok()) << image.error().what;
    ASSERT_EQ(image->entries().size(), 4u);
    EXPECT_EQ(image->entries()[1].compression, Compression::zstd);
    EXPECT_EQ(image->entries()[2].compression, Compression::lz4);
    for (const Entry& entry : image->entries()) {
        auto payload = decompress(entry);
        ASSERT_TRUE(payload.ok()) << payload.error().what;
        EXPECT_EQ(payload->text(), k_ptx);
        auto info = read_info(entry);
        ASSERT_TRUE(info.ok()) << info.error().what;
        EXPECT_EQ(info->kernels.at(0).name, "k");
    }
}

TEST(Image, SelectsAsTheDriverDoes) {
    constexpr uint64_t a = 0x11 | k_flag_arch_specific, f = 0x11 | k_flag_family_specific;
    Bytes fatbin = make_fatbin({cubin_entry(75), cubin_entry(80), cubin_entry(86), cubin_entry(90, a), cubin_entry(100, f),
                                cubin_entry(120), ptx_entry(70), ptx_entry(80), ptx_entry(90, a), ptx_entry(100, f)});
    auto image = Image::from_bytes(fatbin);
    ASSERT_TRUE(image.ok());
    struct Row {
        uint32_t capability;
        EntryKind kind;
        uint32_t arch;
    };
    for (const Row& row : {Row{75, EntryKind::cubin, 75}, Row{80, EntryKind::cubin, 80}, Row{87, EntryKind::cubin, 86},
                           Row{89, EntryKind::cubin, 86}, Row{90, EntryKind::cubin, 90}, Row{103, EntryKind::cubin, 100},
                           Row{110, EntryKind::ptx, 80}, Row{121, EntryKind::cubin, 120}, Row{70, EntryKind::ptx, 70},
                           Row{72, EntryKind::ptx, 70}}) {
        const Entry* entry = image->select(row.capability);
        ASSERT_NE(entry, nullptr) << row.capability;
        EXPECT_EQ(entry->kind, row.kind) << row.capability;
        EXPECT_EQ(entry->arch, row.arch) << row.capability;
    }
    EXPECT_EQ(image->select(61), nullptr);
}

TEST(Image, TheSoftwareGpuTakesTheLowestPlainPtx) {
    Bytes fatbin = make_fatbin({cubin_entry(75), ptx_entry(120), ptx_entry(90, 0x11 | k_flag_arch_specific), ptx_entry(100)});
    auto image = Image::from_bytes(fatbin);
    ASSERT_TRUE(image.ok());
    ASSERT_NE(image->select_ptx(121), nullptr);
    EXPECT_EQ(image->select_ptx(121)->arch, 100u);
    EXPECT_EQ(image->select_ptx(121, true)->arch, 100u) << "special ones only if there is no other";
    EXPECT_EQ(image->select_ptx(90), nullptr);
    ASSERT_NE(image->select_ptx(90, true), nullptr);
    EXPECT_TRUE(image->select_ptx(90, true)->arch_specific);
    EXPECT_TRUE(image->select_linkable_ptx(121).empty());
    EXPECT_TRUE(image->select_linkable(121).empty());
}

TEST(Image, LinkedAndRelocatableFatbinsComeBackFromTheUploadForm) {
    Bytes linked = make_fatbin({cubin_entry(80)});
    Bytes unit1 = make_fatbin({cubin_entry(80), ptx_entry(80)});
    Bytes unit2 = make_fatbin({ptx_entry(90), ptx_entry(75)});
    const void* units[] = {unit1.data(), unit2.data(), nullptr};
    Wrapper wrapper{k_wrapper_magic, 2, linked.data(), units};
    auto image = Image::from_pointer(&wrapper);
    ASSERT_TRUE(image.ok()) << image.error().what;
    ASSERT_EQ(image->parts().size(), 3u);
    EXPECT_TRUE(image->in_wrapper());
    Bytes upload;
    for (BytesView part : image->parts()) upload.insert(upload.end(), part.begin(), part.end());
    EXPECT_EQ(upload.size(), image->upload_bytes());
    auto again = Image::from_bytes(upload);
    ASSERT_TRUE(again.ok()) << again.error().what;
    for (const Image* each : {&*image, &*again}) {
        EXPECT_EQ(each->entries().size(), 5u);
        EXPECT_EQ(each->select_ptx(121), nullptr) << "relocatable PTX does not run by itself";
        ASSERT_EQ(each->select_linkable_ptx(121).size(), 2u);
        EXPECT_EQ(each->select_linkable_ptx(121)[0]->arch, 80u);
        EXPECT_EQ(each->select_linkable_ptx(121)[1]->arch, 75u);
        EXPECT_TRUE(each->select_linkable_ptx(75).empty()) << "one unit has none";
        EXPECT_TRUE(each->select_linkable(75).empty()) << "one unit has none";
        for (const auto& [capability, kind, arch] :
             {std::tuple(80u, EntryKind::cubin, 75u), std::tuple(90u, EntryKind::ptx, 90u)}) {
            const auto linkable = each->select_linkable(capability);
            ASSERT_EQ(linkable.size(), 2u) << capability;
            EXPECT_EQ(linkable[0]->kind, kind) << "machine code where it fits";
            EXPECT_EQ(linkable[0]->arch, 80u);
            EXPECT_EQ(linkable[1]->kind, EntryKind::ptx);
            EXPECT_EQ(linkable[1]->arch, arch) << "else the highest PTX that can be compiled";
        }
        EXPECT_EQ(each->select(80)->arch, 80u);
        EXPECT_FALSE(each->select(80)->relocatable);
    }
}

TEST(Image, LinkedTextsAreUnitsOfTheirOwn) {
    const std::string first = ".version 8.0\n.target sm_90\n.address_size 64\n",
                      second = first + ".visible .entry k() { ret; }\n";
    const Bytes bytes = make_linked_ptx({first, second, first});
    auto found = Image::from_pointer(bytes.data());
    ASSERT_TRUE(found.ok()) << found.error().what;
    EXPECT_EQ(found->upload_bytes(), bytes.size());
    auto again = Image::from_bytes(bytes);
    ASSERT_TRUE(again.ok()) << again.error().what;
    for (const Image* each : {&*found, &*again}) {
        EXPECT_EQ(each->select(90), nullptr) << "none of them is for itself";
        EXPECT_EQ(each->select_ptx(121), nullptr);
        const auto units = each->select_linkable_ptx(121);
        ASSERT_EQ(units.size(), 3u);
        const std::string* wanted[] = {&first, &second, &first};
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(units[i]->arch, 90u);
            auto text = decompress(*units[i]);
            ASSERT_TRUE(text.ok()) << text.error().what;
            EXPECT_EQ(text->text(), *wanted[i]);
        }
        EXPECT_TRUE(each->select_linkable_ptx(80).empty()) << "all of them or none";
    }
    for (size_t size = 0; size < bytes.size(); ++size)
        EXPECT_FALSE(Image::from_bytes(BytesView(bytes).first(size)).ok()) << size;
}

TEST(Image, OwnedBytesOutliveTheCallers) {
    Bytes fatbin = make_fatbin({ptx_entry(75), packed(ptx_entry(80), Compression::zstd)});
    auto image = Image::from_bytes(fatbin);
    ASSERT_TRUE(image.ok());
    ASSERT_TRUE(image->own().ok());
    ASSERT_TRUE(image->own().ok());
    std::fill(fatbin.begin(), fatbin.end(), std::byte{0xee});
    Image moved = std::move(*image);
    for (const Entry& entry : moved.entries()) EXPECT_EQ(decompress(entry)->text(), k_ptx);
    EXPECT_EQ(moved.bytes().size(), fatbin.size());
}

TEST(Image, PtxTextFromPointerAndBytes) {
    std::string text = "// a comment\n.version 8.0\n.target sm_90a, texmode_independent\n.address_size 64\n";
    auto image = Image::from_pointer(text.c_str());
    ASSERT_TRUE(image.ok());
    EXPECT_EQ(image->container(), Container::ptx);
    EXPECT_EQ(image->bytes().size(), text.size());
    ASSERT_EQ(image->entries().size(), 1u);
    EXPECT_EQ(image->entries()[0].arch, 90u);
    EXPECT_TRUE(image->entries()[0].arch_specific);
    EXPECT_EQ(image->select_ptx(121), nullptr);
    Bytes with_zero(text.size() + 3);
    std::memcpy(with_zero.data(), text.data(), text.size());
    auto from_bytes = Image::from_bytes(with_zero);
    ASSERT_TRUE(from_bytes.ok());
    EXPECT_EQ(from_bytes->bytes().size(), text.size());
}

TEST(Image, RefusesWhatItDoesNotKnow) {
    EXPECT_EQ(Image::from_pointer(nullptr).error().code, Code::bad_argument);
    EXPECT_EQ(Image::from_pointer("").error().code, Code::malformed);
    EXPECT_EQ(Image::from_pointer("a").error().code, Code::malformed);
    EXPECT_EQ(Image::from_pointer("garbage that is no image").error().code, Code::malformed);
    EXPECT_EQ(Image::from_bytes({}).error().code, Code::malformed);
    Wrapper without{k_wrapper_magic, 1, nullptr, nullptr};
    EXPECT_EQ(Image::from_pointer(&without).error().code, Code::malformed);
    Bytes fatbin = make_fatbin({ptx_entry(75)});
    Wrapper future{k_wrapper_magic, 7, fatbin.data(), nullptr};
    EXPECT_EQ(Image::from_pointer(&future).error().code, Code::unsupported);
    FatbinHeader huge{k_fatbin_magic, 1, 16, uint64_t{1} << 40};
    EXPECT_EQ(Image::from_pointer(&huge).error().code, Code::quota);
    huge.size_bytes = UINT64_MAX - 3;
    EXPECT_EQ(Image::from_pointer(&huge).error().code, Code::quota);
}

TEST(Image, ImpossibleSizesAreRefusedBeforeAnythingIsReserved) {
    for (Compression compression : {Compression::lz4, Compression::zstd}) {
        TestEntry entry = packed(ptx_entry(75), compression);
        entry.raw_bytes = k_max_image_bytes;
        Bytes fatbin = make_fatbin({entry});
        auto image = Image::from_bytes(fatbin);
        ASSERT_TRUE(image.ok());
        EXPECT_EQ(decompress(image->entries()[0]).error().code, Code::malformed);
        entry.raw_bytes = k_max_image_bytes + 1;
        fatbin = make_fatbin({entry});
        image = Image::from_bytes(fatbin);
        EXPECT_EQ(decompress(image->entries()[0]).error().code, Code::quota);
        entry.raw_bytes = k_ptx.size() + 1;
        fatbin = make_fatbin({entry});
        image = Image::from_bytes(fatbin);
        EXPECT_EQ(decompress(image->entries()[0]).error().code, Code::malformed);
    }
}

TEST(Image, NoFatbinHasMoreThanItsBoundOfEntries) {
    std::vector<TestEntry> entries(k_max_entries + 1);
    Bytes fatbin = make_fatbin(entries);
    EXPECT_EQ(Image::from_bytes(fatbin).error().code, Code::quota);
}

}  // namespace
}  // namespace warpline::cuda::image
