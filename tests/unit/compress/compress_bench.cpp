#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "compress/codec.h"
#include "test_data.h"

// Speed and ratio of each codec on each kind of data, as CSV. The assumed speeds of compress/policy.cpp come from here.
using namespace warpline;
using namespace warpline::compress;

namespace {

constexpr int k_runs = 5;

template <typename F>
double best_seconds(F work) {
    double best = 1e9;
    for (int i = 0; i < k_runs; i++) {
        auto start = std::chrono::steady_clock::now();
        work();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

int measure(const std::string& kind, const Bytes& raw, Codec codec, int level) {
    Bytes packed(max_packed_bytes(codec, raw.size())), again(raw.size());
    size_t size = 0;
    double pack = best_seconds([&] { size = warpline::compress::compress(codec, level, raw, packed).value(); });
    BytesView view = BytesView(packed).first(size);
    double unpack = best_seconds([&] { (void)decompress(codec, view, again).ok(); });
    if (raw != again) {
        std::fprintf(stderr, "%s came back different\n", to_string(codec));
        return 1;
    }
    double mebibytes = static_cast<double>(raw.size()) / (1 << 20);
    std::printf("%s,%s,%d,%.3f,%.0f,%.0f\n", kind.c_str(), to_string(codec), level,
                static_cast<double>(size) / static_cast<double>(raw.size()), mebibytes / pack, mebibytes / unpack);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const size_t mebibytes = argc > 1 ? std::max(1, std::atoi(argv[1])) : 16;
    std::printf("data,codec,level,ratio,pack_mib_per_s,unpack_mib_per_s\n");
    int failures = 0;
    for (const std::string& kind : data_kinds()) {
        const Bytes& raw = make_data(kind, mebibytes << 20);
        for (Codec codec : {Codec::none, Codec::lz4, Codec::group2, Codec::group4, Codec::group8})
            failures += measure(kind, raw, codec, 1);
        for (int level : {1, 3}) failures += measure(kind, raw, Codec::zstd, level);
    }
    return failures == 0 ? 0 : 1;
}
