// Every operation of tests/ptx/tables/operations.txt (computed with exact rational numbers by make_tables.py) on the engine:
// with all lanes, and under a guard that leaves lanes out.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

constexpr uint64_t k_untouched = 0xa5a5a5a5a5a5a5a5;
constexpr uint64_t k_any_nan = 0x6e616e;  // stands for "nan" in the table

struct Operation {
    std::string name, result;
    std::vector<std::string> operands;
    std::vector<std::vector<uint64_t>> cases;  // operands, result
    std::vector<bool> wants_nan;
};

std::vector<Operation> read_operations() {
    std::ifstream file(std::string(WL_PTX_TABLES) + "/operations.txt");
    EXPECT_TRUE(file.good());
    std::vector<Operation> all;
    std::string line, word;
    while (std::getline(file, line)) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream words(line);
        if (line.rfind("op ", 0) == 0) {
            Operation operation;
            words >> word >> operation.name >> operation.result;
            while (words >> word) operation.operands.push_back(word);
            all.push_back(std::move(operation));
            continue;
        }
        std::vector<uint64_t> values;
        while (words >> word) values.push_back(word == "nan" ? k_any_nan : std::stoull(word, nullptr, 16));
        all.back().wants_nan.push_back(word == "nan");
        all.back().cases.push_back(std::move(values));
    }
    return all;
}

int width_of(const std::string& type) { return std::stoi(type.substr(1)); }

/// A register of the type, and the way between it and the 64 bits that lie in memory.
std::string declare(const std::string& type, const std::string& name) {
    int width = std::max(16, width_of(type));
    return "  .reg ." + (type[0] == 'f' ? type : "b" + std::to_string(width)) + " " + name + ";\n";
}
std::string from_bits(const std::string& type, const std::string& name, const std::string& bits) {
    switch (width_of(type)) {
        case 64: return "  mov.b64 " + name + ", " + bits + ";\n";
        case 32: return "  cvt.u32.u64 %w, " + bits + ";\n  mov.b32 " + name + ", %w;\n";
        default: return "  cvt.u16.u64 " + name + ", " + bits + ";\n";
    }
}
std::string to_bits(const std::string& type, const std::string& name) {
    switch (width_of(type)) {
        case 64: return "  mov.b64 %bits, " + name + ";\n";
        case 32: return "  mov.b32 %w, " + name + ";\n  cvt.u64.u32 %bits, %w;\n";
        default: return "  cvt.u64.u" + std::to_string(width_of(type)) + " %bits, " + name + ";\n";
    }
}

std::string kernel_text(const Operation& operation, size_t number) {
    std::string text = ".visible .entry k" + std::to_string(number) +
                       "(.param .u64 in, .param .u64 out, .param .u32 left_out)\n{\n"
                       "  .reg .b64 %in, %out, %bits;\n  .reg .b32 %w, %t, %m;\n  .reg .pred %p;\n";
    text += declare(operation.result, "%d");
    std::string list = " %d";
    for (size_t i = 0; i < operation.operands.size(); ++i) {
        std::string name = "%s" + std::to_string(i);
        text += declare(operation.operands[i], name);
        list += ", " + name;
    }
    size_t pitch = operation.operands.size() * 8;
    text +=
        "  ld.param.u64 %in, [in];\n  ld.param.u64 %out, [out];\n  ld.param.u32 %m, [left_out];\n  mov.u32 %t, %tid.x;\n"
        "  mad.wide.u32 %in, %t, " +
        std::to_string(pitch) +
        ", %in;\n  mad.wide.u32 %out, %t, 8, %out;\n"
        "  ld.global.u64 %bits, [%out];\n";
    text += from_bits(operation.result, "%d", "%bits");
    for (size_t i = 0; i < operation.operands.size(); ++i) {
        text += "  ld.global.u64 %bits, [%in+" + std::to_string(i * 8) + "];\n";
        text += from_bits(operation.operands[i], "%s" + std::to_string(i), "%bits");
    }
    text += "  and.b32 %t, %t, 3;\n  setp.ne.u32 %p, %t, %m;\n";
    text += "  @%p " + operation.name + list + ";\n";
    return text + to_bits(operation.result, "%d") + "  st.global.u64 [%out], %bits;\n  ret;\n}\n";
}

std::string module_text(const std::vector<Operation>& operations) {
    std::string text = with_head("");
    for (size_t i = 0; i < operations.size(); ++i) text += kernel_text(operations[i], i);
    return text;
}

bool is_nan(const std::string& type, uint64_t bits) {
    if (type == "f32") return (bits & 0x7fffffff) > 0x7f800000;
    return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
}

uint64_t mask_of(const std::string& type) { return width_of(type) == 64 ? ~uint64_t{0} : (uint64_t{1} << width_of(type)) - 1; }

void check(Device& device, Module& module, const Operation& operation, size_t number, uint32_t left_out) {
    std::vector<uint64_t> in;
    for (const auto& one : operation.cases) in.insert(in.end(), one.begin(), one.end() - 1);
    size_t count = operation.cases.size();
    uint64_t input = device.upload(in), out = device.upload(std::vector<uint64_t>(count, k_untouched));
    EXPECT_RUNS(device.launch(module, "k" + std::to_string(number), {.block = {uint32_t(count)}}, input, out, left_out));
    auto got = device.download<uint64_t>(out, count);
    for (size_t i = 0; i < count; ++i) {
        if (i % 4 == left_out) {
            EXPECT_EQ(got[i], k_untouched & mask_of(operation.result)) << operation.name << " wrote lane " << i;
            continue;
        }
        if (operation.wants_nan[i]) {
            EXPECT_TRUE(is_nan(operation.result, got[i])) << operation.name << " case " << i << " gave " << std::hex << got[i];
            continue;
        }
        std::string operands;
        for (uint64_t value : std::vector<uint64_t>(operation.cases[i].begin(), operation.cases[i].end() - 1)) {
            char text[20];
            std::snprintf(text, sizeof(text), " %llx", static_cast<unsigned long long>(value));
            operands += text;
        }
        EXPECT_EQ(got[i], operation.cases[i].back())
            << operation.name << operands << std::hex << " gave " << got[i] << ", not " << operation.cases[i].back();
    }
    device.free_all();
}

TEST(SoftgpuOperations, AgreeWithExactArithmetic) {
    auto operations = read_operations();
    ASSERT_GT(operations.size(), 400U);
    Device device;
    auto module = device.load(module_text(operations));
    ASSERT_NE(module, nullptr);
    for (size_t i = 0; i < operations.size(); ++i) {
        check(device, *module, operations[i], i, 4);
        check(device, *module, operations[i], i, 1);
        // A kernel that has met denormals goes another way from then on: it, too, is right.
        check(device, *module, operations[i], i, 4);
    }
}

TEST(SoftgpuOperations, AssembleWithPtxas) {
    if (std::system("ptxas --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no ptxas on this machine";
    auto path = std::filesystem::temp_directory_path() / ("warpline_operations_" + std::to_string(::getpid()) + ".ptx");
    std::ofstream(path) << module_text(read_operations());
    EXPECT_EQ(std::system(("ptxas -O0 -arch=sm_80 -o /dev/null " + path.string()).c_str()), 0);
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
