// Runs a fuzz target without libFuzzer: mutations of its seeds by a generator with a fixed start, so that every run is the same
// and a failure can be repeated by its number. Usage: <target> [first mutation [count]].

#include "tests/fuzz/protocol_fuzz.h"

#ifndef WARPLINE_LIBFUZZER

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

using warpline::Bytes;

constexpr uint64_t k_default_count = 100000;

struct Random {
    uint64_t state;
    uint64_t next() {
        state += 0x9E3779B97F4A7C15;
        uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }
    size_t below(size_t bound) { return bound == 0 ? 0 : next() % bound; }
};

// Numbers that lengths, counts and offsets are wrong with.
constexpr uint64_t k_odd_numbers[] = {0,           1,      2,          7,          8,          0x7F,       0xFF,
                                      0x7FFF,      0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF8, 0x7FFFFFFFFFFFFFFF,
                                      ~uint64_t{0}};

void mutate(Bytes& input, Random& random) {
    switch (random.below(7)) {
        case 0:  // a bit
            if (!input.empty()) input[random.below(input.size())] ^= std::byte(1u << random.below(8));
            break;
        case 1:  // a byte
            if (!input.empty()) input[random.below(input.size())] = std::byte(random.next());
            break;
        case 2:
        case 3: {  // a number, mostly where one is
            size_t width = size_t{1} << random.below(4);
            if (input.size() < width) break;
            size_t at = random.below(input.size() - width + 1) & ~(width - 1);
            uint64_t value = k_odd_numbers[random.below(std::size(k_odd_numbers))];
            std::memcpy(input.data() + at, &value, width);
            break;
        }
        case 4:  // cut off
            input.resize(random.below(input.size() + 1));
            break;
        case 5: {  // a part again
            size_t from = random.below(input.size()), count = random.below(input.size() - from + 1);
            Bytes part(input.begin() + static_cast<ptrdiff_t>(from), input.begin() + static_cast<ptrdiff_t>(from + count));
            input.insert(input.begin() + static_cast<ptrdiff_t>(random.below(input.size() + 1)), part.begin(), part.end());
            break;
        }
        case 6: {  // two parts change places
            if (input.size() < 16) break;
            size_t a = random.below(input.size() - 8), b = random.below(input.size() - 8);
            std::swap_ranges(input.begin() + static_cast<ptrdiff_t>(a), input.begin() + static_cast<ptrdiff_t>(a + 4),
                             input.begin() + static_cast<ptrdiff_t>(b));
            break;
        }
    }
}

void run(const Bytes& input) { LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size()); }

int write_seeds(const std::vector<Bytes>& seeds, const std::string& folder) {
    for (size_t i = 0; i < seeds.size(); ++i) {
        std::ofstream file(folder + "/seed-" + std::to_string(i), std::ios::binary);
        file.write(reinterpret_cast<const char*>(seeds[i].data()), static_cast<std::streamsize>(seeds[i].size()));
        if (!file) return 1;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<Bytes> seeds = fuzz_seeds();
    if (argc == 3 && std::string_view(argv[1]) == "seeds") return write_seeds(seeds, argv[2]);
    uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : k_default_count;
    for (const Bytes& seed : seeds) run(seed);
    for (uint64_t i = first; i < first + count; ++i) {
        Random random{i * 0x2545F4914F6CDD1D};
        Bytes input = seeds[random.below(seeds.size())];
        for (size_t n = 1 + random.below(4); n > 0; --n) mutate(input, random);
        run(input);
    }
    std::printf("%llu mutations of %zu seeds\n", static_cast<unsigned long long>(count), seeds.size());
    return 0;
}

#endif
