// Tests of names and texts of errors, against cuda.h.
#include "cuda/abi/error_names.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace warpline::cuda::abi {
namespace {

// A number that is no result, within the enumeration's range: sanitizers object to others in the test itself.
constexpr auto k_no_result = static_cast<CUresult>(998);

// cuda.h is read as text: a result that a new toolkit brings must be added to the table.
TEST(ErrorNames, EveryResultOfCudaHIsNamed) {
    std::ifstream file(CUDA_HEADER);
    ASSERT_TRUE(file);
    std::stringstream text;
    text << file.rdbuf();
    std::string header = text.str();
    size_t begin = header.find("typedef enum cudaError_enum"), end = header.find("} CUresult;");
    ASSERT_NE(begin, std::string::npos);
    ASSERT_NE(end, std::string::npos);
    header = header.substr(begin, end - begin);
    std::regex row("(CUDA_[A-Z0-9_]+) *= *([0-9]+)");
    size_t count = 0;
    std::set<std::string> texts;
    for (auto at = std::sregex_iterator(header.begin(), header.end(), row); at != std::sregex_iterator(); ++at, ++count) {
        auto result = static_cast<CUresult>(std::stoi((*at)[2]));
        ASSERT_NE(error_name(result), nullptr) << (*at)[1];
        EXPECT_EQ(error_name(result), (*at)[1].str());
        ASSERT_NE(error_string(result), nullptr);
        texts.insert(error_string(result));
    }
    EXPECT_GE(count, 100u);
    EXPECT_GE(texts.size(), count - 2) << "texts repeat";
}

TEST(ErrorNames, AsTheDriverAnswers) {
    const char* text = nullptr;
    EXPECT_EQ(get_error_string(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
    EXPECT_STREQ(text, "out of memory");
    EXPECT_EQ(get_error_name(CUDA_SUCCESS, &text), CUDA_SUCCESS);
    EXPECT_STREQ(text, "CUDA_SUCCESS");
    EXPECT_EQ(get_error_name(k_no_result, &text), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(text, nullptr);
    EXPECT_EQ(get_error_name(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_STREQ(error_name_for_log(k_no_result), "unknown error");
}

}  // namespace
}  // namespace warpline::cuda::abi
