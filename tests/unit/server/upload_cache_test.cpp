// A worker's side of what is kept: what it hands in, and what it believes of the answers.
#include "server/objects/upload_cache.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "server/control/chunk_file.h"

namespace warpline::server {
namespace {

constexpr uint64_t k_kept_mib = 1 << 20;

/// The keeper's end of a channel, in the hands of the test.
class UploadCacheTest : public ::testing::Test, protected UploadCache::Owner {
protected:
    void SetUp() override {
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        m_keeper = std::make_unique<CacheChannel>(ends[0]);
        CacheGreeting greeting{};
        greeting.key.fill(7);
        greeting.stored_bytes = 42;
        ASSERT_TRUE(m_keeper->send(greeting).ok());
        m_cache = UploadCache::open(ends[1]);
        ASSERT_NE(m_cache, nullptr);
    }
    void TearDown() override { m_cache.reset(); }

    CacheRequest request() {
        close_files();
        const auto request = m_keeper->receive<CacheRequest>(m_files, 10'000);
        EXPECT_TRUE(request.ok());
        return request.ok() ? *request : CacheRequest{};
    }
    void close_files() {
        for (const int fd : m_files) close(fd);
        m_files.clear();
    }
    /// What was handed in, as it was.
    Bytes kept() {
        EXPECT_EQ(request().kind, static_cast<uint32_t>(CacheRequest::keep));
        if (m_files.size() != 1) return {};
        Bytes bytes(static_cast<size_t>(lseek(m_files[0], 0, SEEK_END)));
        EXPECT_TRUE(read_chunk_file(m_files[0], bytes));
        return bytes;
    }
    bool nothing_more() {
        std::vector<int> files;
        return m_keeper->receive<CacheRequest>(files, 0).error().code == Code::deadline;
    }

    void offer_answered(const UploadOffer&, uint64_t has, const std::vector<int>& files) override {
        if (!m_is_told.exchange(true)) m_answer.set_value({has, files.size()});
    }
    using Answer = std::pair<uint64_t, size_t>;
    std::future<Answer> next_answer() {
        m_answer = {};
        m_is_told = false;
        return m_answer.get_future();
    }
    /// What becomes of an offer of two chunks, the second of them short, that the keeper answers like this.
    Answer answer(uint64_t has, const std::vector<uint64_t>& sizes, uint64_t number_off = 0) {
        auto told = next_answer();
        EXPECT_TRUE(m_cache->ask({1, 0, k_kept_mib + 5000, false, {net::Digest{}, net::Digest{}}}));
        const CacheRequest asked = request();
        EXPECT_EQ(asked.count, 2u);
        std::vector<int> files;
        for (const uint64_t size : sizes) files.push_back(*make_chunk_file(Bytes(size)));
        EXPECT_TRUE(m_keeper->send(CacheAnswer{asked.number + number_off, has}, files).ok());
        for (const int fd : files) close(fd);
        return told.get();
    }

    std::unique_ptr<CacheChannel> m_keeper;
    std::unique_ptr<UploadCache> m_cache;
    std::promise<Answer> m_answer;
    std::atomic<bool> m_is_told{false};
    std::vector<int> m_files;
};

Bytes numbered_bytes(size_t size) {
    Bytes bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 12));
    return bytes;
}

TEST_F(UploadCacheTest, TakesTheGreeting_B7) {
    EXPECT_EQ(m_cache->key()[31], 7);
    EXPECT_EQ(m_cache->stored_bytes(), 42u);
}

TEST_F(UploadCacheTest, ChunksArePutTogetherAndHandedIn_B7) {
    const Bytes payload = numbered_bytes(3 * k_kept_mib + 5000);
    ChunkGatherer gatherer;
    const auto part = [&](uint64_t offset, uint64_t bytes, bool keep) {
        gatherer.part(*m_cache, offset, payload.size(), BytesView(payload).subspan(offset, bytes), keep);
    };
    for (uint64_t at = 0; at < k_kept_mib; at += k_kept_mib / 4) part(at, k_kept_mib / 4, true);
    EXPECT_EQ(kept(), Bytes(payload.begin(), payload.begin() + k_kept_mib));
    part(k_kept_mib, k_kept_mib, true);
    EXPECT_EQ(kept(), Bytes(payload.begin() + k_kept_mib, payload.begin() + 2 * k_kept_mib));
    // One that was partly not to be kept is not.
    part(2 * k_kept_mib, k_kept_mib / 2, true);
    part(2 * k_kept_mib + k_kept_mib / 2, k_kept_mib / 4, false);
    part(2 * k_kept_mib + 3 * k_kept_mib / 4, k_kept_mib / 4, true);
    EXPECT_TRUE(nothing_more());
    part(3 * k_kept_mib, 5000, true);
    EXPECT_EQ(kept(), Bytes(payload.begin() + 3 * k_kept_mib, payload.end()));
}

TEST_F(UploadCacheTest, APartOfSeveralChunksAndOneThatIsTooSmall_B7) {
    const Bytes payload = numbered_bytes(2 * k_kept_mib + 4095);
    ChunkGatherer gatherer;
    gatherer.part(*m_cache, 0, payload.size(), payload, true);
    EXPECT_EQ(kept(), Bytes(payload.begin(), payload.begin() + k_kept_mib));
    EXPECT_EQ(kept(), Bytes(payload.begin() + k_kept_mib, payload.begin() + 2 * k_kept_mib));
    EXPECT_TRUE(nothing_more());
}

TEST_F(UploadCacheTest, AnswersAreBelievedIfTheyFit_B7) {
    m_cache->start(*this, 64 * k_kept_mib);
    EXPECT_EQ(answer(0b11, {k_kept_mib, 5000}), Answer(0b11, 2));
    EXPECT_EQ(answer(0b10, {5000}), Answer(0b10, 1));
    EXPECT_EQ(answer(0, {}), Answer(0, 0));
    EXPECT_EQ(answer(0b11, {k_kept_mib, 5001}).first, 0u) << "another size than the chunk's";
    EXPECT_EQ(answer(0b100, {5000}).first, 0u) << "a chunk that was not asked for";
    EXPECT_EQ(answer(0b01, {k_kept_mib, 5000}).first, 0u) << "more descriptors than chunks";
    // From then on the keeper is not asked any more.
    auto told = next_answer();
    ASSERT_TRUE(m_cache->ask({1, 0, k_kept_mib, false, {net::Digest{}}}));
    EXPECT_EQ(told.get(), Answer(0, 0));
    EXPECT_TRUE(nothing_more());
}

TEST_F(UploadCacheTest, AKeeperThatGoesHasNothing_B7) {
    m_cache->start(*this, 64 * k_kept_mib);
    m_keeper.reset();
    auto told = next_answer();
    ASSERT_TRUE(m_cache->ask({1, 0, k_kept_mib, false, {net::Digest{}}}));
    EXPECT_EQ(told.get(), Answer(0, 0));
    m_cache->keep(Bytes(5000));
}

TEST_F(UploadCacheTest, MoreOffersThanCreditAllowsAreRefused_B7) {
    size_t taken = 0;
    while (taken < 1000 && m_cache->ask({1, 0, k_kept_mib, false, {net::Digest{}}})) ++taken;
    EXPECT_EQ(taken, 0u) << "before start()";
    m_cache->start(*this, 4 * k_kept_mib);
    // The keeper does not answer: one is with it, the others wait.
    while (taken < 1000 && m_cache->ask({1, 0, k_kept_mib, false, {net::Digest{}}})) ++taken;
    EXPECT_GE(taken, 72u);
    EXPECT_LE(taken, 73u);
    m_keeper.reset();
}

}  // namespace
}  // namespace warpline::server
