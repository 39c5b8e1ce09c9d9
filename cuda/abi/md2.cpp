// MD2 as RFC 1319 describes it.
#include "cuda/abi/md2.h"

#include <algorithm>

namespace warpline::cuda::abi {

namespace {

constexpr size_t k_block_bytes = 16;

// A permutation of 0 … 255 made from the digits of pi [RFC 1319, 3.2].
constexpr uint8_t k_pi[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,   243, 192, 199, 115, 140,
    152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212, 224, 22,  103, 66,  111, 24,  138, 23,  229, 18,
    190, 78,  196, 214, 218, 158, 222, 73,  160, 251, 245, 142, 187, 47,  238, 122, 169, 104, 121, 145, 21,  178, 7,   63,
    148, 194, 16,  137, 11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,  53,  62,  204, 231, 191, 247, 151, 3,
    255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,  170, 198, 79,  184, 56,  210, 150, 164, 125, 182,
    118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,  100, 113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,
    27,  96,  37,  173, 174, 176, 185, 246, 28,  70,  97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,
    195, 92,  249, 206, 186, 197, 234, 38,  44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,
    106, 220, 55,  200, 108, 193, 171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120, 136, 149, 139, 227, 99,  232, 109,
    233, 203, 213, 254, 59,  0,   29,  57,  242, 239, 183, 14,  102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,
    49,  68,  80,  180, 143, 237, 31,  26,  219, 153, 141, 51,  159, 17,  131, 20,
};

constexpr bool is_permutation_of_bytes() {
    bool seen[256] = {};
    for (uint8_t byte : k_pi) {
        if (seen[byte]) return false;
        seen[byte] = true;
    }
    return true;
}
static_assert(is_permutation_of_bytes());

class Md2 {
public:
    void update(BytesView message) {
        for (std::byte byte : message) {
            m_block[m_filled++] = static_cast<uint8_t>(byte);
            if (m_filled == k_block_bytes) {
                take_block();
                m_filled = 0;
            }
        }
    }

    Md2Digest finish() {
        auto padding = static_cast<uint8_t>(k_block_bytes - m_filled);
        std::fill(m_block.begin() + m_filled, m_block.end(), padding);
        take_block();
        m_block = m_checksum;
        take_block();
        Md2Digest digest;
        std::copy_n(m_state.begin(), digest.size(), digest.begin());
        return digest;
    }

private:
    void take_block() {
        uint8_t last = m_checksum[k_block_bytes - 1];
        for (size_t i = 0; i < k_block_bytes; i++) last = m_checksum[i] ^= k_pi[m_block[i] ^ last];
        for (size_t i = 0; i < k_block_bytes; i++) {
            m_state[k_block_bytes + i] = m_block[i];
            m_state[2 * k_block_bytes + i] = m_block[i] ^ m_state[i];
        }
        constexpr unsigned k_rounds = 18;
        uint8_t carry = 0;
        for (unsigned round = 0; round < k_rounds; round++) {
            for (uint8_t& byte : m_state) carry = byte ^= k_pi[carry];
            carry = static_cast<uint8_t>(carry + round);
        }
    }

    std::array<uint8_t, k_block_bytes> m_block{};
    size_t m_filled = 0;
    std::array<uint8_t, k_block_bytes> m_checksum{};
    std::array<uint8_t, 3 * k_block_bytes> m_state{};
};

}  // namespace

Md2Digest md2(BytesView message) {
    Md2 hash;
    hash.update(message);
    return hash.finish();
}

Md2Digest hmac_md2(BytesView key, BytesView message) {
    std::array<uint8_t, k_block_bytes> inner{}, outer{};
    Md2Digest hashed_key;
    if (key.size() > k_block_bytes) {
        hashed_key = md2(key);
        key = as_bytes(hashed_key.data(), hashed_key.size());
    }
    std::memcpy(inner.data(), key.data(), key.size());
    outer = inner;
    for (size_t i = 0; i < k_block_bytes; i++) {
        inner[i] ^= 0x36;
        outer[i] ^= 0x5c;
    }
    Md2 first;
    first.update(as_bytes(inner.data(), inner.size()));
    first.update(message);
    Md2Digest digest = first.finish();
    Md2 second;
    second.update(as_bytes(outer.data(), outer.size()));
    second.update(as_bytes(digest.data(), digest.size()));
    return second.finish();
}

}  // namespace warpline::cuda::abi
