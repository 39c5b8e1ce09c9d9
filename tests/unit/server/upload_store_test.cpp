// What is kept of uploads, who gives, and what is believed of a disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "server/cache/upload_store.h"
#include "server/control/chunk_file.h"

namespace warpline::server {
namespace {

constexpr uint64_t k_kib = 1024;

net::Digest numbered(uint8_t number) {
    net::Digest digest{};
    digest[0] = number;
    digest[31] = 1;
    return digest;
}

Bytes bytes_of(size_t size, uint8_t value) { return Bytes(size, std::byte{value}); }

/// An index that remembers who went.
struct Kept {
    explicit Kept(uint64_t most_bytes) : index(most_bytes, 1000) {}
    bool add(const std::string& tenant, uint8_t number, uint64_t bytes = 100 * k_kib, double ns_per_byte = 8) {
        return index.add(
            tenant, numbered(number), {bytes, number}, ns_per_byte,
            [&](const ChunkIndex::Name& name, const ChunkIndex::Chunk& chunk) { gone.emplace_back(name.tenant, chunk.slot); });
    }
    ChunkIndex index;
    std::vector<std::pair<std::string, int>> gone;
};
using Gone = std::vector<std::pair<std::string, int>>;

TEST(ChunkIndex, WhatWasNotWantedForLongestGoesFirst_B7) {
    Kept kept(300 * k_kib);
    for (uint8_t i = 1; i <= 3; ++i) EXPECT_TRUE(kept.add("a", i));
    EXPECT_TRUE(kept.index.want("a", numbered(1)));
    EXPECT_TRUE(kept.add("a", 4));
    EXPECT_TRUE(kept.add("a", 5));
    EXPECT_EQ(kept.gone, (Gone{{"a", 2}, {"a", 3}}));
    EXPECT_EQ(kept.index.bytes(), 300 * k_kib);
    EXPECT_EQ(kept.index.evicted(), 2u);
}

TEST(ChunkIndex, WhatIsWantedOftenStaysAndAgesWhenItIsNot_B7) {
    Kept kept(300 * k_kib);
    EXPECT_TRUE(kept.add("a", 1));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(kept.index.want("a", numbered(1)));
    for (uint8_t i = 2; i <= 6; ++i) EXPECT_TRUE(kept.add("a", i));
    EXPECT_TRUE(kept.index.has("a", numbered(1)));
    // Each that goes makes what is new worth more.
    for (uint8_t i = 7; i <= 40; ++i) EXPECT_TRUE(kept.add("a", i));
    EXPECT_FALSE(kept.index.has("a", numbered(1)));
}

TEST(ChunkIndex, WhatWasDearToSendStaysLonger_B7) {
    Kept kept(300 * k_kib);
    EXPECT_TRUE(kept.add("a", 1, 100 * k_kib, 80));
    EXPECT_TRUE(kept.add("a", 2, 100 * k_kib, 8));
    EXPECT_TRUE(kept.add("a", 3, 100 * k_kib, 80));
    EXPECT_TRUE(kept.add("a", 4, 100 * k_kib, 80));
    EXPECT_EQ(kept.gone, (Gone{{"a", 2}}));
}

TEST(ChunkIndex, ASmallChunkIsWorthMoreForItsBytes_B7) {
    Kept kept(300 * k_kib);
    EXPECT_TRUE(kept.add("a", 1, 5 * k_kib));
    EXPECT_TRUE(kept.add("a", 2, 200 * k_kib));
    EXPECT_TRUE(kept.add("a", 3, 200 * k_kib));
    EXPECT_EQ(kept.gone, (Gone{{"a", 2}}));
}

TEST(ChunkIndex, ACostThatIsNoNumberIsTheLeast_B7) {
    Kept kept(200 * k_kib);
    EXPECT_TRUE(kept.add("a", 1, 100 * k_kib, std::numeric_limits<double>::quiet_NaN()));
    EXPECT_TRUE(kept.add("a", 2, 100 * k_kib, 1));
    EXPECT_TRUE(kept.add("a", 3, 100 * k_kib, std::numeric_limits<double>::infinity()));
    EXPECT_EQ(kept.gone, (Gone{{"a", 1}}));
}

TEST(ChunkIndex, WhoHasNoMoreThanItsPartLosesNothingToOthers_B7) {
    Kept kept(1000 * k_kib);
    for (uint8_t i = 1; i <= 5; ++i) EXPECT_TRUE(kept.add("quiet", i));
    for (int round = 0; round < 3; ++round)
        for (uint8_t i = 1; i <= 200; ++i) kept.add("loud", i, 100 * k_kib, 1000);
    EXPECT_EQ(kept.index.bytes_of("quiet"), 500 * k_kib);
    EXPECT_EQ(kept.index.bytes_of("loud"), 500 * k_kib);
    for (const auto& [tenant, slot] : kept.gone) EXPECT_EQ(tenant, "loud");
}

TEST(ChunkIndex, WhoHasMoreThanItsPartGivesToWhoHasLess_B7) {
    Kept kept(1000 * k_kib);
    for (uint8_t i = 1; i <= 10; ++i) EXPECT_TRUE(kept.add("first", i));
    for (uint8_t i = 1; i <= 10; ++i) EXPECT_TRUE(kept.add("second", i));
    EXPECT_EQ(kept.index.bytes_of("first"), 500 * k_kib);
    EXPECT_EQ(kept.index.bytes_of("second"), 500 * k_kib);
}

TEST(ChunkIndex, ThereAreNeverMoreChunksThanAllowed_B7) {
    ChunkIndex index(1000 * k_kib, 10);
    const auto nobody = [](const ChunkIndex::Name&, const ChunkIndex::Chunk&) {};
    for (uint8_t i = 0; i < 100; ++i) EXPECT_TRUE(index.add("a", numbered(i), {4 * k_kib, i}, 8, nobody));
    EXPECT_EQ(index.chunks(), 10u);
    EXPECT_FALSE(index.add("a", numbered(200), {1001 * k_kib, 0}, 8, nobody));
    EXPECT_FALSE(index.add("a", numbered(99), {4 * k_kib, 0}, 8, nobody)) << "it is there";
}

TEST(ChunkIndex, AHashOfOneTenantIsNothingToAnother_B7) {
    Kept kept(1000 * k_kib);
    EXPECT_TRUE(kept.add("a", 1));
    EXPECT_FALSE(kept.index.want("b", numbered(1)));
    EXPECT_FALSE(kept.index.remove("b", numbered(1)));
    EXPECT_TRUE(kept.index.remove("a", numbered(1)));
    EXPECT_EQ(kept.index.tenants(), 0u);
    EXPECT_EQ(kept.index.bytes(), 0u);
}

class UploadStoreTest : public ::testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/upload-store-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder = name;
    }
    void TearDown() override { std::filesystem::remove_all(folder); }

    std::unique_ptr<UploadStore> open(uint64_t memory_bytes = 64u << 20, bool disk = false) {
        std::string problem;
        auto store = UploadStore::open({memory_bytes, 1000, disk ? folder + "/chunks" : "", 64u << 20}, problem);
        EXPECT_TRUE(store.ok()) << problem;
        return store.ok() ? std::move(*store) : nullptr;
    }
    static const UploadStore::Tenant& tenant(UploadStore& store, const char* name) { return **store.tenant(name); }
    static Bytes content(UploadStore& store, const UploadStore::Tenant& owner, const net::Digest& digest, size_t size) {
        const int fd = store.find(owner, digest);
        Bytes bytes(size);
        return fd >= 0 && read_chunk_file(fd, bytes) ? bytes : Bytes{};
    }
    std::vector<std::filesystem::path> chunk_files() const {
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/chunks"))
            if (entry.is_regular_file() && entry.path().filename().string().size() == 64) files.push_back(entry.path());
        return files;
    }

    std::string folder;
};

TEST_F(UploadStoreTest, FindsWhatTheTenantGaveAndNothingOfOthers_B7) {
    const auto store = open();
    const auto& a = tenant(*store, "a");
    const auto& b = tenant(*store, "b");
    EXPECT_NE(a.key, b.key);
    EXPECT_NE(a.id, b.id);
    const Bytes bytes = bytes_of(64 * k_kib, 7);
    ASSERT_TRUE(store->add(a, bytes, 8).ok());
    const net::Digest by_a = *a.hash.digest(bytes), by_b = *b.hash.digest(bytes);
    EXPECT_NE(by_a, by_b);
    EXPECT_EQ(content(*store, a, by_a, bytes.size()), bytes);
    EXPECT_LT(store->find(b, by_b), 0);
    EXPECT_LT(store->find(b, by_a), 0) << "even who has learnt the other's hash";
    EXPECT_EQ(store->bytes_of(b), 0u);
    EXPECT_EQ(store->counters().hits, 1u);
    EXPECT_EQ(store->counters().misses, 2u);
}

TEST_F(UploadStoreTest, WhatIsFoundCanBeReadAndNotChanged_B7) {
    const auto store = open();
    const auto& a = tenant(*store, "a");
    const Bytes bytes = bytes_of(8 * k_kib, 7);
    ASSERT_TRUE(store->add(a, bytes, 8).ok());
    const int fd = store->find(a, *a.hash.digest(bytes));
    ASSERT_GE(fd, 0);
    EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
    EXPECT_NE(ftruncate(fd, 0), 0);
    EXPECT_EQ(mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
}

TEST_F(UploadStoreTest, TakesFilesByTheirOwnHashAndOnlySealedOnes_B7) {
    const auto store = open();
    const auto& a = tenant(*store, "a");
    const Bytes bytes = bytes_of(8 * k_kib, 9);
    ASSERT_TRUE(store->add_file(a, *make_chunk_file(bytes), 8).ok());
    EXPECT_EQ(content(*store, a, *a.hash.digest(bytes), bytes.size()), bytes);

    const int open_one = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(write(open_one, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(store->add_file(a, open_one, 8).error().code, Code::malformed);
    EXPECT_LT(fcntl(open_one, F_GETFD), 0) << "it is closed, whatever it was";
    EXPECT_FALSE(store->add_file(a, *make_chunk_file(bytes_of(4095, 1)), 8).ok());
    EXPECT_FALSE(store->add_file(a, *make_chunk_file(bytes_of(1024 * k_kib + 1, 1)), 8).ok());
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_FALSE(store->add_file(a, ends[0], 8).ok());
    close(ends[1]);
    EXPECT_EQ(store->counters().refused, 4u);
    EXPECT_EQ(store->memory().chunks(), 1u);
}

TEST_F(UploadStoreTest, TheDiskOutlivesTheStore_B7) {
    const Bytes bytes = bytes_of(64 * k_kib, 7);
    net::Digest digest;
    {
        const auto store = open(1u << 20, true);
        const auto& a = tenant(*store, "a");
        digest = *a.hash.digest(bytes);
        ASSERT_TRUE(store->add(a, bytes, 8).ok());
    }
    const auto store = open(1u << 20, true);
    const auto& a = tenant(*store, "a");
    EXPECT_EQ(*a.hash.digest(bytes), digest) << "the secret was kept";
    EXPECT_EQ(store->bytes_of(a), bytes.size());
    EXPECT_EQ(content(*store, a, digest, bytes.size()), bytes);
    EXPECT_EQ(content(*store, a, digest, bytes.size()), bytes);
    EXPECT_EQ(store->counters().from_disk, 1u) << "then it is in memory";
    EXPECT_LT(store->find(tenant(*store, "b"), digest), 0);
}

TEST_F(UploadStoreTest, WhatTheDiskHasChangedIsThrownAway_B7) {
    const Bytes bytes = bytes_of(64 * k_kib, 7), other = bytes_of(64 * k_kib, 8);
    {
        const auto store = open(1u << 20, true);
        ASSERT_TRUE(store->add(tenant(*store, "a"), bytes, 8).ok());
        ASSERT_TRUE(store->add(tenant(*store, "a"), other, 8).ok());
    }
    const auto files = chunk_files();
    ASSERT_EQ(files.size(), 2u);
    for (const auto& file : files) {
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        stream.seekp(33'000);
        stream.put('!');
    }
    std::filesystem::resize_file(files.front(), 5'000);
    const auto store = open(1u << 20, true);
    const auto& a = tenant(*store, "a");
    EXPECT_LT(store->find(a, *a.hash.digest(bytes)), 0);
    EXPECT_LT(store->find(a, *a.hash.digest(other)), 0);
    EXPECT_EQ(store->disk()->damaged(), 2u);
    EXPECT_TRUE(chunk_files().empty());
    ASSERT_TRUE(store->add(a, bytes, 8).ok());
    EXPECT_EQ(content(*store, a, *a.hash.digest(bytes), bytes.size()), bytes);
}

TEST_F(UploadStoreTest, TheDiskIsBoundedToo_B7) {
    std::string problem;
    const auto store = UploadStore::open({16u << 20, 1000, folder + "/chunks", 256 * k_kib}, problem);
    ASSERT_TRUE(store.ok()) << problem;
    for (uint8_t i = 0; i < 10; ++i) ASSERT_TRUE((*store)->add(tenant(**store, "a"), bytes_of(64 * k_kib, i), 8).ok());
    EXPECT_EQ(chunk_files().size(), 4u);
    EXPECT_EQ((*store)->disk()->index().bytes(), 256 * k_kib);
}

TEST_F(UploadStoreTest, AFolderThatOthersMayLookIntoIsRefused_B7) {
    std::filesystem::create_directory(folder + "/chunks");
    chmod((folder + "/chunks").c_str(), 0755);
    std::string problem;
    EXPECT_FALSE(UploadStore::open({1u << 20, 10, folder + "/chunks", 1u << 20}, problem).ok());
    EXPECT_NE(problem.find("nobody else may look into it"), std::string::npos) << problem;
}

TEST_F(UploadStoreTest, FilesThatAreNoneOfOursAreLeftAloneButForWhatPosesAsAChunk_B7) {
    { open(1u << 20, true); }
    std::ofstream(folder + "/chunks/notes.txt") << "mine";
    const std::string tenant_folder = folder + "/chunks/" + std::string(64, 'a');
    std::filesystem::create_directory(tenant_folder);
    std::filesystem::create_symlink("/etc/passwd", tenant_folder + "/" + std::string(64, 'b'));
    const auto store = open(1u << 20, true);
    EXPECT_TRUE(std::filesystem::exists(folder + "/chunks/notes.txt"));
    EXPECT_FALSE(std::filesystem::is_symlink(tenant_folder + "/" + std::string(64, 'b')));
    EXPECT_EQ(store->disk()->index().chunks(), 0u);
}

}  // namespace
}  // namespace warpline::server
