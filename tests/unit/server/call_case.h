// What the generated tests of hostile calls are made of.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "cuda/abi/cuda_types.h"
#include "tests/unit/server/fake_client.h"

namespace warpline::server::test {

/// Fields as a hostile client fills them: borders, addresses of its own and of others, names that exist and that do not; always
/// the same ones for a seed.
class FieldSource {
public:
    FieldSource(uint64_t seed, uint64_t window) : m_random(seed), m_window(window) {}

    uint64_t number() {
        const uint64_t known[] = {0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  16,
                                  64,
                                  255,
                                  4096,
                                  65536,
                                  UINT32_MAX,
                                  uint64_t{1} << 31,
                                  m_window,
                                  m_window + 8,
                                  m_window + 4096,
                                  0x1000,
                                  0x7fffffffe000,
                                  uint64_t{1} << 63,
                                  UINT64_MAX,
                                  UINT64_MAX - 7,
                                  uint64_t{1} << 32,
                                  uint64_t{2} << 20};
        return below(10) == 0 ? m_random() : known[below(std::size(known))];
    }
    /// @param kind  number of the kind that belongs there; 0: any
    uint64_t handle(unsigned kind) {
        if (below(12) == 0) return number();
        if (kind == 0 || below(12) == 0) kind = static_cast<unsigned>(1 + below(18));
        if (kind == 1 && below(3) == 0) return below(3);
        return uint64_t{kind} << 48 | uint64_t{1} << 32 | uint64_t{below(6)} << 4;
    }
    std::vector<uint64_t> list(unsigned kind) {
        std::vector<uint64_t> values(below(8) == 0 ? below(200) : below(4));
        for (uint64_t& value : values) value = kind != 0 ? handle(kind) : number();
        return values;
    }
    /// @param size  of the structure that belongs there; 0: not known
    capnp::Data::Reader data(size_t size) {
        constexpr size_t k_sizes[] = {0, 4, 8, 16, 24, 32, 36, 40, 48, 56, 64, 72, 88, 96, 104, 128, 144, 184, 200, 232, 288};
        if (size == 0 || below(10) == 0) size = k_sizes[below(std::size(k_sizes))];
        m_bytes.assign(size + 8, 0);
        for (size_t i = 0; i < size; i += below(2) == 0 ? 4 : 8) {
            const uint64_t value = below(3) == 0 ? handle(0) : number();
            const auto* bytes = reinterpret_cast<const capnp::byte*>(&value);
            std::copy_n(bytes, std::min<size_t>(8, m_bytes.size() - i), m_bytes.begin() + static_cast<ptrdiff_t>(i));
        }
        return {m_bytes.data(), size};
    }
    const char* text() {
        static const std::string k_long(5000, 'n');
        const char* const texts[] = {"", "store", "counter", "\x1b[2Jstore\n", "%s%n%s", k_long.c_str()};
        return texts[below(std::size(texts))];
    }
    uint64_t below(uint64_t limit) { return m_random() % limit; }

private:
    std::mt19937_64 m_random;
    const uint64_t m_window;
    std::vector<capnp::byte> m_bytes;
};

/// A call with fields from a source, generated from the API description.
struct CallCase {
    std::string name;
    bool takes_payload;
    /// @return  the call's number; its reply is wanted
    uint64_t (*send)(FakeClient& client, FieldSource& fields, BytesView payload);
};

const std::vector<CallCase>& call_cases();

}  // namespace warpline::server::test
