// Images of a client are read by the server as well: every prefix and any flipped byte must give an answer or an error, never
// more. The bytes lie in blocks of exactly their size, so that the address sanitizer sees a read beyond them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>

#include "samples.h"

namespace warpline::cuda::image {
namespace {

// What a reader of foreign bytes does with them. Returns how many entries could be read.
size_t use(BytesView bytes) {
    auto block = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), block.get());
    auto image = Image::from_bytes({block.get(), bytes.size()});
    if (!image.ok()) return 0;
    size_t readable = 0;
    for (const Entry& entry : image->entries()) {
        if (auto payload = decompress(entry); payload.ok() && entry.kind == EntryKind::cubin) {
            if (auto ptx = read_debug_ptx(payload->view()); ptx.ok()) {
                size_t bytes = 0;
                for (const std::string& text : *ptx) bytes += text.size();
                EXPECT_LE(bytes, payload->view().size());
            }
        }
        auto info = read_info(entry);
        if (!info.ok()) continue;
        readable++;
        for (const Kernel& kernel : info->kernels) EXPECT_LE(kernel.params.size(), 4096u);
    }
    image->select(90);
    image->select_ptx(121);
    return readable;
}

std::vector<std::pair<std::string, Bytes>> victims() {
    std::vector<std::pair<std::string, Bytes>> result;
    Bytes ptx = to_bytes(
        ".version 9.0\n.target sm_75\n.address_size 64\n.global .attribute(.managed) .align 4 .u32 g[2] = {1, 2};\n"
        ".visible .entry k(.param .u64 p, .param .align 4 .b8 q[12])\n.maxntid 1, 2, 3\n{\n.shared .b8 s[8];\n ret;\n}\n");
    result.emplace_back("ptx", ptx);
    result.emplace_back("fatbin", make_fatbin({{.payload = ptx}, {.kind = 2, .payload = to_bytes("\177ELF")}}));
    if (samples_folder().empty()) return result;
    for (const char* name : {"sm_75.cubin", "sm_120.cubin", "lineinfo_80.cubin", "relocatable_80.cubin", "compress_size.fatbin",
                             "compress_speed.fatbin", "compute_90.ptx"})
        result.emplace_back(name, read_sample(name));
    return result;
}

TEST(HostileImage, EveryPrefix) {
    for (const auto& [name, bytes] : victims()) {
        SCOPED_TRACE(name);
        EXPECT_GT(use(bytes), 0u);
        // Every one near the start, where the headers are, and near the end; a prime step between.
        for (size_t size = 0; size < bytes.size(); size += size < 4096 || bytes.size() - size < 1024 ? 1 : 61)
            use(BytesView(bytes).first(size));
    }
}

TEST(HostileImage, FlippedBytes) {
    std::mt19937_64 random(20240229);
    for (const auto& [name, bytes] : victims()) {
        SCOPED_TRACE(name);
        for (int round = 0; round < 1500; round++) {
            Bytes damaged = bytes;
            // Half of the damage goes to the headers at both ends.
            int flips = 1 + static_cast<int>(random() % 8);
            for (int i = 0; i < flips; i++) {
                size_t range = random() % 2 == 0 ? std::min<size_t>(512, damaged.size()) : damaged.size();
                size_t at = random() % range;
                if (random() % 4 == 0) at = damaged.size() - 1 - at;
                damaged[at] = static_cast<std::byte>(random());
            }
            use(damaged);
        }
    }
}

TEST(HostileImage, ExtremeNumbersInHeaders) {
    for (const auto& [name, bytes] : victims()) {
        SCOPED_TRACE(name);
        for (uint64_t value :
             {uint64_t{0}, uint64_t{1}, uint64_t{0x7fffffffffffffff}, UINT64_MAX, UINT64_MAX - 63, uint64_t{0xffffffff}}) {
            for (size_t at = 0; at + 8 <= std::min<size_t>(bytes.size(), 256); at += 2) {
                for (size_t width : {2u, 4u, 8u}) {
                    Bytes damaged = bytes;
                    std::memcpy(damaged.data() + at, &value, width);
                    use(damaged);
                }
            }
        }
    }
}

TEST(HostileImage, DeepNestingNeedsNoStack) {
    std::string text = ".version 9.0\n.target sm_75\n.entry k()\n" + std::string(2'000'000, '{');
    EXPECT_FALSE(read_ptx_info(text).ok());
    text += std::string(2'000'000, '}');
    EXPECT_TRUE(read_ptx_info(text).ok());
}

}  // namespace
}  // namespace warpline::cuda::image
