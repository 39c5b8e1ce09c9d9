// Sheets of answers, also damaged ones; and what is asked (A5).
#include "cuda/nvml/sheet.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "cuda/nvml/questions.h"
#include "cuda/nvml/types.h"

namespace warpline::cuda::nvml {
namespace {

TEST(NvmlSheet, FindsWhatWasAdded_A5) {
    SheetWriter sheet;
    const uint32_t power = 123'456;
    ASSERT_TRUE(sheet.add(7, k_success, as_bytes(&power, sizeof power)));
    ASSERT_TRUE(sheet.add(300, k_not_supported, as_bytes(&power, sizeof power)));
    ASSERT_TRUE(sheet.add(2'230, k_unknown));
    ASSERT_TRUE(sheet.add(9, k_success, as_bytes("Warpline")));
    const auto found = find_answer(sheet.bytes(), 7);
    ASSERT_TRUE(found.has_value());
    uint32_t read = 0;
    EXPECT_TRUE(read_at(found->value, 0, read));
    EXPECT_EQ(read, power);
    EXPECT_EQ(find_answer(sheet.bytes(), 300)->result, k_not_supported);
    EXPECT_TRUE(find_answer(sheet.bytes(), 300)->value.empty()) << "an error has no value";
    EXPECT_EQ(find_answer(sheet.bytes(), 2'230)->result, k_unknown);
    EXPECT_EQ(as_text(find_answer(sheet.bytes(), 9)->value), "Warpline");
    EXPECT_FALSE(find_answer(sheet.bytes(), 8).has_value());
}

TEST(NvmlSheet, KeepsItsBounds_A5) {
    SheetWriter sheet;
    EXPECT_FALSE(sheet.add(1, k_success, Bytes(256)));
    EXPECT_TRUE(sheet.bytes().empty());
    while (sheet.add(2, k_success, Bytes(255))) {
    }
    EXPECT_LE(sheet.bytes().size(), SheetWriter::k_most_bytes);
    EXPECT_GT(sheet.bytes().size() + 4 + 255, SheetWriter::k_most_bytes);
}

TEST(NvmlSheet, EveryBeginningOfASheetIsRead_A5) {
    SheetWriter sheet;
    sheet.add(1, k_success, Bytes(5));
    sheet.add(2, k_success, Bytes(3));
    for (size_t length = 0; length < sheet.bytes().size(); ++length) {
        const Bytes part(sheet.bytes().begin(), sheet.bytes().begin() + static_cast<ptrdiff_t>(length));
        EXPECT_EQ(find_answer(part, 1).has_value(), length >= 9) << length;
        EXPECT_FALSE(find_answer(part, 2).has_value()) << length;
    }
}

/// What every question answers at most fits into one sheet, on a machine of eight GPUs, with room for what is added.
TEST(NvmlQuestions, AllFit_A5) {
    constexpr size_t k_text_bytes = 96, k_field_bytes = 12, k_devices = 8;
    size_t bytes = fields().size() * (4 + k_field_bytes);
    std::set<uint16_t> ids;
    for (const Question& question : questions()) {
        EXPECT_TRUE(ids.insert(question.id).second) << question.function;
        size_t value = question.text ? k_text_bytes : 0;
        for (size_t i = 0; i < question.outputs; ++i) value += question.output_bytes[i];
        EXPECT_LE(value, 255u) << question.function;
        // Parts of GPUs have attributes, and none of much else: no links of NVLink, for one.
        if (question.function == std::string_view("nvmlDeviceGetAttributes_v2")) value = 0;
        bytes += (4 + value) * (question.kind == QuestionKind::pair ? k_devices : 1);
    }
    EXPECT_LT(bytes, SheetWriter::k_most_bytes * 3 / 4);
}

/// A link may come up later, and with it all that is known of it.
TEST(NvmlQuestions, LinksMayChange_A5) {
    for (const Question& question : questions()) {
        const bool of_link = std::string_view(question.function).starts_with("nvmlDeviceGetNvLink");
        EXPECT_FALSE(of_link && question.once) << question.function;
    }
}

TEST(NvmlErrors, EachHasItsWords_A5) {
    std::set<std::string> texts;
    for (int code = 0; code <= 30; ++code) EXPECT_TRUE(texts.insert(error_text(code)).second) << code;
    for (const int code : {-1, 31, 998, 999, 1'000}) EXPECT_STREQ(error_text(code), "Unknown Error");
    EXPECT_EQ(texts.count("Unknown Error"), 0u);
    EXPECT_STREQ(error_text(k_argument_version_mismatch), "Argument version mismatch");
    EXPECT_STREQ(error_text(k_gpu_is_lost), "GPU is lost");
}

}  // namespace
}  // namespace warpline::cuda::nvml
