// Copies by size, direction, kind of memory and kind of data.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "bench/case.h"
#include "bench/report/measure.h"
#include "bench/transport.h"

namespace warpline::bench {

namespace {

enum class Data : uint8_t { random, zeros, weights, tokens };

struct Described {
    Data data;
    const char* id;
    const char* title;
};
constexpr Described k_random = {Data::random, "random", "random bytes"};
constexpr Described k_other_data[] = {
    {Data::zeros, "zeros", "zeros"},
    {Data::weights, "weights", "floats as of weights"},
    {Data::tokens, "tokens", "numbers as of tokens"},
};

std::vector<uint32_t> words_of(Data data, size_t bytes, uint32_t seed) {
    if (data == Data::zeros) return std::vector<uint32_t>(bytes / 4);
    std::vector<uint32_t> words = random_words(bytes, seed);
    if (data == Data::tokens)
        for (uint32_t& word : words) word %= 50000;
    if (data == Data::weights)
        for (uint32_t& word : words) {
            // Nearly normal: the sum of four evenly distributed bytes.
            const uint32_t sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
            const float weight = (static_cast<float>(sum) - 510 + static_cast<float>(word & 0xffff) / 65536) * 0.0001f;
            std::memcpy(&word, &weight, sizeof word);
        }
    return words;
}

/// Memory of the program, of either kind.
class HostBytes {
public:
    static Result<std::unique_ptr<HostBytes>> create(Driver& driver, size_t bytes, bool pinned) {
        auto memory = std::unique_ptr<HostBytes>(new HostBytes(driver));
        if (pinned) {
            if (CUresult r = driver.host_alloc(&memory->m_pinned, bytes); r != CUDA_SUCCESS)
                return refused("cuMemAllocHost", r);
        } else {
            memory->m_pageable.resize(bytes);
        }
        return memory;
    }
    ~HostBytes() {
        if (m_pinned != nullptr) static_cast<void>(m_driver.host_free(m_pinned));
    }
    HostBytes(const HostBytes&) = delete;
    HostBytes& operator=(const HostBytes&) = delete;
    void* data() { return m_pinned != nullptr ? m_pinned : m_pageable.data(); }

private:
    explicit HostBytes(Driver& driver) : m_driver(driver) {}
    Driver& m_driver;
    void* m_pinned = nullptr;
    std::vector<std::byte> m_pageable;
};

/// Rates in both directions: GB/s of each copy there, and of each back.
struct Rates {
    std::vector<double> to_device, from_device;
};

CUresult copy_both_ways(Driver& driver, CUdeviceptr memory, HostBytes& out, HostBytes& back, size_t bytes, Rates& rates) {
    const auto rate = [&](uint64_t began) { return static_cast<double>(bytes) / static_cast<double>(now_ns() - began); };
    uint64_t began = now_ns();
    CUresult r = driver.to_device(memory, out.data(), bytes);
    if (r == CUDA_SUCCESS) r = driver.synchronize();
    rates.to_device.push_back(rate(began));
    // What comes next is not foreseen: bytes that came along with the wait would count as those of no time.
    uint32_t first = 0;
    std::memcpy(&first, out.data(), sizeof first);
    if (r == CUDA_SUCCESS) r = driver.set_words(memory, first, 1);
    if (r != CUDA_SUCCESS) return r;
    began = now_ns();
    r = driver.to_host(back.data(), memory, bytes);
    rates.from_device.push_back(rate(began));
    return r;
}

/// Each time other bytes, so that nobody has them from the last time; the first time does not count.
Result<Rates> copies(size_t bytes, Data data, bool pinned, int count) {
    Driver& driver = *WL_TRY(Driver::instance());
    const auto out = WL_TRY(HostBytes::create(driver, bytes, pinned));
    const auto back = WL_TRY(HostBytes::create(driver, bytes, pinned));
    std::memset(back->data(), 1, bytes);
    CUdeviceptr memory = 0;
    if (CUresult r = driver.mem_alloc(&memory, bytes); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    Rates rates;
    CUresult r = CUDA_SUCCESS;
    bool same = true;
    for (int i = 0; i <= count && r == CUDA_SUCCESS && same; ++i) {
        const std::vector<uint32_t> words = words_of(data, bytes, static_cast<uint32_t>(i));
        std::memcpy(out->data(), words.data(), bytes);
        if (i == 1) rates = {};
        r = copy_both_ways(driver, memory, *out, *back, bytes, rates);
        same = std::memcmp(back->data(), words.data(), bytes) == 0;
    }
    static_cast<void>(driver.mem_free(memory));
    if (r != CUDA_SUCCESS) return refused("cuMemcpy", r);
    if (!same) return Error{Code::internal, "what came back is not what was sent"};
    return rates;
}

std::string without_space(std::string text) {
    std::erase(text, ' ');
    return text;
}

/// Both directions of one kind of copy: what one measures, the other one only has to say.
void add_both(std::vector<Measure>& measures, const char* section, size_t bytes, const Described& data, bool pinned,
              int count) {
    const auto rates = std::make_shared<std::optional<Result<Rates>>>();
    const char* memory = pinned ? "pinned" : "pageable";
    const std::string size = bytes_in_words(static_cast<double>(bytes));
    for (const bool to_device : {true, false}) {
        const std::string direction = to_device ? "to the device" : "from the device", series = direction + ", " + memory;
        Figure figure{.id = std::string("bandwidth/") + (to_device ? "to" : "from") + "-device/" + memory + "/" + data.id +
                            "/" + without_space(size),
                      .section = section,
                      .title = data.data == Data::random ? series + ", " + size : std::string(data.title) + ", " + direction,
                      .unit = "GB/s",
                      .higher_is_better = true,
                      .limit = "limits/tls-bulk",
                      .series = series,
                      .x = static_cast<double>(bytes)};
        measures.push_back({std::move(figure), [=]() -> Result<Samples> {
                                if (!*rates) *rates = copies(bytes, data.data, pinned, count);
                                if (!(*rates)->ok()) return (*rates)->error();
                                const Rates& both = (*rates)->value();
                                return Samples{to_device ? both.to_device : both.from_device, "all bytes of each copy"};
                            }});
    }
}

}  // namespace

std::vector<Measure> copy_measures(const Effort& effort) {
    std::vector<Measure> measures;
    const int least = effort.copies;
    for (const bool pinned : {false, true})
        for (size_t bytes = 4 << 10; bytes <= effort.most_bytes; bytes *= 4)
            add_both(measures, "bandwidth", bytes, k_random, pinned, bytes <= (1 << 20) ? 10 * least : least);
    // Large enough that compressing could pay, and small enough that it is soon done.
    for (const Described& data : k_other_data) add_both(measures, "data", effort.most_bytes / 4, data, false, least);
    return measures;
}

}  // namespace warpline::bench
