#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace warpline::compress {

/// Kinds of data that programs copy.
inline const std::vector<std::string>& data_kinds() {
    static const std::vector<std::string> k_kinds = {"zeros",        "text",       "weights_f32", "smooth_f32",
                                                     "weights_bf16", "smooth_f64", "indices_i32", "random"};
    return k_kinds;
}

inline Bytes make_new_data(const std::string& kind, size_t size_bytes) {
    Bytes data(size_bytes);
    std::mt19937 random(1234);
    std::normal_distribution<float> normal(0.0f, 0.02f);
    auto fill = [&](auto make) {
        using T = decltype(make(size_t{0}));
        for (size_t i = 0; (i + 1) * sizeof(T) <= size_bytes; i++) {
            T value = make(i);
            std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
        }
    };
    if (kind == "text") {
        const std::string words = "the quick brown fox jumps over the lazy dog and runs away again; ";
        fill([&](size_t i) { return words[(i + (i / 4096) * 7) % words.size()]; });
    } else if (kind == "weights_f32") {
        fill([&](size_t) { return normal(random); });
    } else if (kind == "smooth_f32") {
        fill([&](size_t i) { return 300.0f + 10.0f * std::sin(static_cast<float>(i) * 1e-3f); });
    } else if (kind == "weights_bf16") {
        fill([&](size_t) {
            float value = normal(random);
            uint32_t bits = 0;
            std::memcpy(&bits, &value, sizeof bits);
            return static_cast<uint16_t>(bits >> 16);
        });
    } else if (kind == "smooth_f64") {
        fill([&](size_t i) { return 300.0 + 10.0 * std::sin(static_cast<double>(i) * 1e-3); });
    } else if (kind == "indices_i32") {
        fill([&](size_t i) { return static_cast<int32_t>(i * 3 + random() % 3); });
    } else if (kind == "random") {
        fill([&](size_t) { return static_cast<uint32_t>(random()); });
    }
    return data;
}

/// `size_bytes` of a kind, always the same. Kept: random numbers are dear in a build without optimisation, and tests want the
/// same data many times.
inline const Bytes& make_data(const std::string& kind, size_t size_bytes) {
    static std::map<std::pair<std::string, size_t>, Bytes> made;
    auto [place, fresh] = made.try_emplace({kind, size_bytes});
    if (fresh) place->second = make_new_data(kind, size_bytes);
    return place->second;
}

}  // namespace warpline::compress
