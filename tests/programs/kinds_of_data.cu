// For test_compression.py: copies 16 MiB of one kind of data (zeros, weights, halves, random) to the device and back, as the
// sanity of what travels compressed: it must be the same bytes.
#include <cstring>
#include <string>

#include "check.h"

constexpr size_t k_words = size_t{4} << 20;

/// About normally distributed: the sum of four uniform numbers.
static float weight(Random& random) {
    return (random.uniform() + random.uniform() + random.uniform() + random.uniform() - 2.0f) * 0.03f;
}

static std::vector<uint32_t> words_of(const std::string& kind) {
    std::vector<uint32_t> words(k_words);
    Random random(7);
    for (uint32_t& word : words) {
        if (kind == "random") word = random.next() << 16 ^ random.next();
        if (kind == "weights" || kind == "halves") {
            const float value = weight(random);
            std::memcpy(&word, &value, sizeof word);
        }
        // Bfloat16: the upper half of a float.
        if (kind == "halves") word = (word & 0xffff0000) | (word >> 16 ^ (random.next() & 0x807f));
    }
    return words;
}

int main(int argc, char** argv) {
    const std::string kind = argc > 1 ? argv[1] : "zeros";
    const std::vector<uint32_t> words = words_of(kind);
    std::vector<uint32_t> back(words.size(), 1);
    DeviceArray<uint32_t> device(words.size());
    CHECK(cudaMemset(device.data(), 0xff, words.size() * 4));
    CHECK(cudaMemcpy(device.data(), words.data(), words.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(back.data(), device.data(), words.size() * 4, cudaMemcpyDeviceToHost));
    EXPECT(back == words);
    return passed("kinds of data");
}
