// Mutated texts through the fuzz entry: a crash or a sanitizer's report is the failure. WARPLINE_FUZZ_SECONDS lengthens
// it, WARPLINE_FUZZ_SEED varies it, WARPLINE_FUZZ_SEEDS is a folder of other texts to begin with.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "tests/fuzz/ptx_parser_fuzz.h"

namespace warpline::softgpu::test {
namespace {

std::vector<std::string> seeds() {
    std::vector<std::string> texts;
    const char* folder = std::getenv("WARPLINE_FUZZ_SEEDS");
    for (const auto& entry : std::filesystem::directory_iterator(folder ? folder : WARPLINE_PTX_SEEDS)) {
        std::ifstream file(entry.path());
        std::stringstream text;
        text << file.rdbuf();
        texts.push_back(text.str());
    }
    return texts;
}

class Mutator {
public:
    Mutator(std::vector<std::string> seeds, uint32_t seed) : m_seeds(std::move(seeds)), m_random(seed) {}

    std::string next() {
        std::string text = pick(m_seeds);
        for (size_t n = 1 + below(4); n > 0 && !text.empty(); n--) mutate(text);
        return text;
    }

private:
    size_t below(size_t limit) { return limit == 0 ? 0 : std::uniform_int_distribution<size_t>(0, limit - 1)(m_random); }
    const std::string& pick(const std::vector<std::string>& list) { return list[below(list.size())]; }

    // A run of characters from one boundary of words to another.
    std::string piece(const std::string& text) {
        size_t from = text.find_first_of(" \t\n,;.[]{}()", below(text.size()));
        if (from == std::string::npos) from = 0;
        return text.substr(from, 1 + below(40));
    }

    void mutate(std::string& text) {
        static const std::vector<std::string> k_words = {"{",
                                                         "}",
                                                         "(",
                                                         ")",
                                                         "[",
                                                         "]",
                                                         ";",
                                                         ",",
                                                         "|",
                                                         "!",
                                                         "-",
                                                         "+",
                                                         "<4294967295>",
                                                         "<99999999999>",
                                                         "0x",
                                                         "0f",
                                                         "0d",
                                                         "0fFFFFFFFF",
                                                         "18446744073709551615",
                                                         "9223372036854775808",
                                                         "-9223372036854775808/-1",
                                                         "1/0",
                                                         ".reg .b32 z<4194304>;",
                                                         "%r",
                                                         "%",
                                                         "_",
                                                         ".",
                                                         "::",
                                                         "\"",
                                                         "/*",
                                                         "//",
                                                         "*/",
                                                         ".b8 x[4294967296][4294967296];",
                                                         "= {",
                                                         "generic(",
                                                         "0xFF(",
                                                         ".align 0",
                                                         ".align 2147483648",
                                                         ".v4",
                                                         ".branchtargets",
                                                         ".callprototype",
                                                         "call",
                                                         "bra",
                                                         "brx.idx",
                                                         "@",
                                                         "@!",
                                                         "{ .reg .pred p;",
                                                         ".loc 1 2 3",
                                                         ".entry",
                                                         ".func",
                                                         ".alias a, b;",
                                                         ".version 9.0",
                                                         std::string(1, '\0'),
                                                         "\xff",
                                                         "%tid.x",
                                                         "WARP_SZ",
                                                         "<<",
                                                         "?",
                                                         ":",
                                                         "(((((((((((((((((((("};
        size_t at = below(text.size() + 1);
        switch (below(9)) {
            case 0: text.insert(at, pick(k_words)); break;
            case 1: text.erase(at, 1 + below(20)); break;
            case 2: text.insert(at, piece(text)); break;
            case 3: text.insert(at, piece(pick(m_seeds))); break;
            case 4: text.resize(at); break;
            case 5:
                if (at < text.size()) text[at] = static_cast<char>(below(256));
                break;
            case 6: {  // a number becomes another
                size_t digit = text.find_first_of("0123456789", at);
                if (digit != std::string::npos) text.replace(digit, 1, pick(k_words));
                break;
            }
            case 7: {  // a line goes somewhere else
                size_t begin = text.rfind('\n', at), end = text.find('\n', at);
                if (begin == std::string::npos || end == std::string::npos) break;
                std::string line = text.substr(begin, end - begin);
                text.insert(text.find('\n', below(text.size())) % text.size(), line);
                break;
            }
            default: {  // a word is doubled
                std::string word = piece(text);
                for (size_t n = below(30); n > 0; n--) text.insert(std::min(at, text.size()), word);
            }
        }
    }

    std::vector<std::string> m_seeds;
    std::mt19937 m_random;
};

TEST(PtxFuzz, MutatedTextsDoNotBreakTheFrontEnd) {
    std::vector<std::string> texts = seeds();
    ASSERT_GE(texts.size(), 3u);
    for (const std::string& text : texts) LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    const char* wanted = std::getenv("WARPLINE_FUZZ_SECONDS");
    const char* seed = std::getenv("WARPLINE_FUZZ_SEED");
    long seconds = wanted ? std::atol(wanted) : 0;
    Mutator mutator(texts, seed ? static_cast<uint32_t>(std::atol(seed)) : 1);
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    size_t runs = 0;
    constexpr size_t k_runs = 30000;
    while (runs < k_runs || std::chrono::steady_clock::now() < end) {
        std::string text = mutator.next();
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
        runs++;
    }
    RecordProperty("runs", static_cast<int>(runs));
}

}  // namespace
}  // namespace warpline::softgpu::test
