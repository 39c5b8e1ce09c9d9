// Loads the images that nvcc made for the tests.
#include "samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "cuda/image/container.h"
#include "kernels.h"

namespace warpline::cuda::image {

std::string samples_folder() { return SAMPLES; }

std::string read_text_sample(const std::string& name) {
    std::ifstream file(samples_folder() + "/" + name, std::ios::binary);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Bytes read_sample(const std::string& name) { return to_bytes(read_text_sample(name)); }

Bytes to_bytes(std::string_view text) {
    BytesView view = as_bytes(text);
    return {view.begin(), view.end()};
}

const std::vector<Expected>& expected_kernels() {
    static const std::vector<Expected> k_expected = {
        {"_Z9templatedIdEvPT_S0_", {8, 8}},
        {"_Z9templatedIiEvPT_S0_", {8, 4}},
        {"aligned_struct", {1, sizeof(Aligned128), 8}},
        {"big_struct", {sizeof(Big20000), 8}},
        {"bounded", {8}},
        {"empty_struct", {sizeof(Empty), 8}},
        {"many", {sizeof(Many), 1}},
        {"no_params", {}},
        {"odd_struct", {sizeof(Odd13), 8, sizeof(Odd3)}},
        {"prints", {4}},
        {"scalars", {1, 8, 2, 8, 4, 8}},
        {"uses_local", {8}},
    };
    return k_expected;
}

namespace {

void check_global(const ImageInfo& info, const char* name, uint64_t size_bytes, Space space, bool managed) {
    SCOPED_TRACE(name);
    const Global* global = info.find_global(name);
    ASSERT_NE(global, nullptr);
    EXPECT_EQ(global->size_bytes, size_bytes);
    EXPECT_EQ(global->space, space);
    EXPECT_EQ(global->managed, managed);
    EXPECT_FALSE(global->external);
}

}  // namespace

void check_info(const ImageInfo& info) {
    ASSERT_EQ(info.kernels.size(), expected_kernels().size());
    for (size_t k = 0; k < info.kernels.size(); k++) {
        const Kernel& kernel = info.kernels[k];
        const Expected& expected = expected_kernels()[k];
        SCOPED_TRACE(expected.kernel);
        EXPECT_EQ(kernel.name, expected.kernel);
        EXPECT_EQ(info.find_kernel(expected.kernel), &kernel);
        ASSERT_EQ(kernel.params.size(), expected.param_sizes.size());
        uint32_t end = 0;
        for (size_t i = 0; i < kernel.params.size(); i++) {
            EXPECT_EQ(kernel.params[i].ordinal, i);
            EXPECT_EQ(kernel.params[i].size_bytes, expected.param_sizes[i]) << "parameter " << i;
            EXPECT_GE(kernel.params[i].offset_bytes, end) << "parameter " << i;
            end = kernel.params[i].offset_bytes + kernel.params[i].size_bytes;
        }
        EXPECT_GE(kernel.param_bytes, end);
    }
    const Kernel* bounded = info.find_kernel("bounded");
    EXPECT_EQ(bounded->max_threads_per_block(), 256u);
    EXPECT_EQ(info.find_kernel("prints")->max_threads_per_block(), 0u);
    EXPECT_EQ(info.find_kernel("no such kernel"), nullptr);
    EXPECT_TRUE(info.uses_printf);
    check_global(info, "device_int", 4, Space::global, false);
    check_global(info, "device_bytes", 13, Space::global, false);
    check_global(info, "constant_table", 68, Space::constant, false);
    check_global(info, "managed_value", 8, Space::global, true);
    // With -rdc=true the names of static variables are made unique by a prefix.
    auto is_static = [](const Global& global) { return global.name.ends_with("static_shorts") && global.size_bytes == 10; };
    EXPECT_EQ(std::count_if(info.globals.begin(), info.globals.end(), is_static), 1);
    EXPECT_EQ(info.find_global("dynamic_shared"), nullptr);
    EXPECT_EQ(bounded->constant_bytes, 68u);
}

Bytes make_fatbin(const std::vector<TestEntry>& entries) {
    Bytes body;
    auto append = [&](const void* data, size_t size_bytes) {
        const auto* bytes = static_cast<const std::byte*>(data);
        body.insert(body.end(), bytes, bytes + size_bytes);
    };
    for (const TestEntry& entry : entries) {
        EntryHeader header{};
        header.kind = entry.kind;
        header.version = 0x0101;
        header.header_bytes = entry.header_bytes;
        header.payload_bytes = (entry.payload.size() + 7) & ~size_t{7};
        header.compressed_bytes = entry.compressed_bytes;
        header.arch = entry.arch;
        header.flags = entry.flags;
        header.raw_bytes = entry.raw_bytes;
        append(&header, sizeof header);
        body.resize(body.size() + (entry.header_bytes - sizeof header));
        append(entry.payload.data(), entry.payload.size());
        body.resize(body.size() + (header.payload_bytes - entry.payload.size()));
    }
    FatbinHeader header{k_fatbin_magic, 1, sizeof(FatbinHeader), body.size()};
    Bytes fatbin(sizeof header + body.size());
    std::memcpy(fatbin.data(), &header, sizeof header);
    std::copy(body.begin(), body.end(), fatbin.begin() + sizeof header);
    return fatbin;
}

}  // namespace warpline::cuda::image
