// AES-128-GCM by wide instructions, held against OpenSSL's own.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <memory>
#include <random>

#include "common/net/aes_gcm_vaes.h"
#include "common/net/tls_internal.h"

namespace warpline::net {
namespace {

struct Free {
    void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using CipherPtr = std::unique_ptr<EVP_CIPHER, Free>;
using ContextPtr = std::unique_ptr<EVP_CIPHER_CTX, Free>;
using Text = std::vector<unsigned char>;

constexpr unsigned char k_key[16] = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c,
                                     0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08};
constexpr unsigned char k_nonce[12] = {0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};

struct Sealed {
    Text text;
    Text tag = Text(16);
};

/// The calls that libssl makes for a record.
bool seal(const CipherPtr& cipher, const Text& associated, const Text& plain, Sealed& sealed) {
    ContextPtr context(EVP_CIPHER_CTX_new());
    int bytes = 0, rest = 0;
    sealed.text.assign(plain.size() + 1, 0);
    const bool done =
        EVP_CipherInit_ex(context.get(), cipher.get(), nullptr, nullptr, nullptr, 1) == 1 &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_IVLEN, 12, nullptr) == 1 &&
        EVP_CipherInit_ex(context.get(), nullptr, nullptr, k_key, nullptr, -1) == 1 &&
        EVP_CipherInit_ex(context.get(), nullptr, nullptr, nullptr, k_nonce, 1) == 1 &&
        EVP_CipherUpdate(context.get(), nullptr, &bytes, associated.data(), static_cast<int>(associated.size())) == 1 &&
        EVP_CipherUpdate(context.get(), sealed.text.data(), &bytes, plain.data(), static_cast<int>(plain.size())) == 1 &&
        EVP_CipherFinal_ex(context.get(), sealed.text.data() + bytes, &rest) == 1 &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, 16, sealed.tag.data()) == 1;
    sealed.text.resize(static_cast<size_t>(bytes));
    return done;
}

/// In place, as libssl does.
bool open(const CipherPtr& cipher, const Text& associated, Sealed& sealed) {
    ContextPtr context(EVP_CIPHER_CTX_new());
    int bytes = 0, rest = 0;
    unsigned char none = 0;
    unsigned char* const text = sealed.text.empty() ? &none : sealed.text.data();
    return EVP_CipherInit_ex(context.get(), cipher.get(), nullptr, k_key, k_nonce, 0) == 1 &&
           EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, 16, sealed.tag.data()) == 1 &&
           EVP_CipherUpdate(context.get(), nullptr, &bytes, associated.data(), static_cast<int>(associated.size())) == 1 &&
           EVP_CipherUpdate(context.get(), text, &bytes, text, static_cast<int>(sealed.text.size())) == 1 &&
           EVP_CipherFinal_ex(context.get(), text + bytes, &rest) == 1;
}

class WideAes : public testing::Test {
protected:
    void SetUp() override {
        if (!has_wide_aes()) GTEST_SKIP() << "this processor has no VAES on AVX-512";
        init_openssl();
        wide.reset(EVP_CIPHER_fetch(nullptr, "AES-128-GCM", k_wide_aes_wanted));
        plain.reset(EVP_CIPHER_fetch(nullptr, "AES-128-GCM", nullptr));
        ASSERT_TRUE(wide && plain);
        ASSERT_NE(wide.get(), plain.get()) << "there is one implementation for both wishes";
    }

    Text random_text(size_t bytes) {
        Text text(bytes);
        for (auto& byte : text) byte = static_cast<unsigned char>(random());
        return text;
    }

    std::mt19937 random{7};
    CipherPtr wide, plain;
};

TEST_F(WideAes, B2_GivesWhatOpensslsOwnGives) {
    std::vector<size_t> sizes;
    for (size_t bytes = 0; bytes <= 1100; ++bytes) sizes.push_back(bytes);
    for (const size_t bytes : {4095u, 4096u, 4097u, 12'345u, 16'384u, 16'385u}) sizes.push_back(bytes);
    for (const size_t bytes : sizes) {
        const Text text = random_text(bytes), associated = random_text(bytes % 2 == 0 ? 5 : bytes % 65);
        Sealed ours, theirs;
        ASSERT_TRUE(seal(wide, associated, text, ours)) << bytes;
        ASSERT_TRUE(seal(plain, associated, text, theirs)) << bytes;
        ASSERT_EQ(ours.text, theirs.text) << bytes;
        ASSERT_EQ(ours.tag, theirs.tag) << bytes;
        ASSERT_TRUE(open(wide, associated, theirs)) << bytes;
        ASSERT_EQ(theirs.text, text) << bytes;
    }
}

TEST_F(WideAes, B2_DamageIsFound) {
    const Text text = random_text(1000), associated = random_text(5);
    Sealed sealed;
    ASSERT_TRUE(seal(wide, associated, text, sealed));
    for (const size_t damaged : {size_t{0}, size_t{999}}) {
        Sealed other = sealed;
        other.text[damaged] ^= 1;
        EXPECT_FALSE(open(wide, associated, other)) << damaged;
    }
    Sealed other = sealed;
    other.tag[15] ^= 1;
    EXPECT_FALSE(open(wide, associated, other));
    other = sealed;
    Text another = associated;
    another[4] ^= 1;
    EXPECT_FALSE(open(wide, another, other));
}

TEST_F(WideAes, B2_ANonceDoesForOneMessage) {
    ContextPtr context(EVP_CIPHER_CTX_new());
    Text text(64), out(64);
    int bytes = 0;
    ASSERT_EQ(EVP_CipherInit_ex(context.get(), wide.get(), nullptr, k_key, nullptr, 1), 1);
    EXPECT_NE(EVP_CipherUpdate(context.get(), out.data(), &bytes, text.data(), 64), 1) << "without a nonce";
    ASSERT_EQ(EVP_CipherInit_ex(context.get(), nullptr, nullptr, nullptr, k_nonce, 1), 1);
    EXPECT_EQ(EVP_CipherUpdate(context.get(), out.data(), &bytes, text.data(), 64), 1);
    EXPECT_NE(EVP_CipherUpdate(context.get(), out.data(), &bytes, text.data(), 64), 1);
}

}  // namespace
}  // namespace warpline::net
