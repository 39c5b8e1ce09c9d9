// Memory that two processes map: what is sealed, and what is refused.
#include "common/net/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace warpline::net {
namespace {

constexpr size_t k_bytes = 64 * 1024;
constexpr int k_all_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Memory of somebody else's making.
Socket made(size_t bytes, int seals, unsigned flags = MFD_ALLOW_SEALING) {
    Socket descriptor(::memfd_create("test", MFD_CLOEXEC | flags));
    EXPECT_EQ(::ftruncate(descriptor.fd(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(descriptor.fd(), F_ADD_SEALS, seals), 0);
    return descriptor;
}

void expect_refused(const Socket& descriptor, const char* reason, size_t bytes = k_bytes) {
    const auto opened = SharedMemory::open(descriptor, bytes);
    ASSERT_FALSE(opened.ok()) << reason;
    EXPECT_EQ(opened.error().code, Code::malformed);
    EXPECT_STREQ(opened.error().what, reason);
}

TEST(SharedMemory, WhatOneWritesTheOtherReads_B9) {
    Socket descriptor;
    auto one = SharedMemory::create(k_bytes, descriptor);
    ASSERT_TRUE(one.ok()) << one.error().what;
    auto other = SharedMemory::open(descriptor, k_bytes);
    ASSERT_TRUE(other.ok()) << other.error().what;
    ASSERT_EQ(other->bytes().size(), k_bytes);
    EXPECT_NE(other->bytes().data(), one->bytes().data());
    std::memcpy(one->bytes().data() + 12'345, "here", 4);
    EXPECT_EQ(std::memcmp(other->bytes().data() + 12'345, "here", 4), 0);
}

TEST(SharedMemory, ItsSizeIsSealedForBoth_B9) {
    Socket descriptor;
    const auto memory = SharedMemory::create(k_bytes, descriptor);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(::fcntl(descriptor.fd(), F_GET_SEALS), k_all_seals);
    EXPECT_NE(::ftruncate(descriptor.fd(), 0), 0);
    EXPECT_NE(::ftruncate(descriptor.fd(), 2 * k_bytes), 0);
    EXPECT_NE(::fcntl(descriptor.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "nor may it be made unwritable";
}

TEST(SharedMemory, AHoleIsZerosAndNoTrap_B9) {
    Socket descriptor;
    const auto memory = SharedMemory::create(k_bytes, descriptor);
    ASSERT_TRUE(memory.ok());
    memory->bytes()[100] = std::byte{7};
    ASSERT_EQ(::fallocate(descriptor.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, k_bytes), 0);
    EXPECT_EQ(memory->bytes()[100], std::byte{0});
}

TEST(SharedMemory, WhoseSizeMayChangeIsRefused_B9) {
    for (const int seals :
         {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_SEAL, F_SEAL_GROW | F_SEAL_SEAL})
        expect_refused(made(k_bytes, seals), "the size of the shared memory is not sealed");
    EXPECT_TRUE(SharedMemory::open(made(k_bytes, k_all_seals), k_bytes).ok());
}

TEST(SharedMemory, OfAnotherSizeIsRefused_B9) {
    for (const size_t bytes : {k_bytes - 4096, k_bytes + 4096, k_bytes - 1, size_t{0}})
        expect_refused(made(bytes, k_all_seals), "the shared memory has another size than was announced");
    expect_refused(made(0, k_all_seals), "the shared memory has another size than was announced", 0);
}

TEST(SharedMemory, WhatIsSomethingElseIsRefused_B9) {
    expect_refused(Socket(), "shared memory was announced, and no descriptor has come");
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const Socket pipe_end(ends[0]), other_end(ends[1]);
    expect_refused(pipe_end, "what was passed as shared memory is something else");
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const Socket socket(ends[0]), other_socket(ends[1]);
    expect_refused(socket, "what was passed as shared memory is something else");
    expect_refused(Socket(::open("/dev/zero", O_RDWR | O_CLOEXEC)), "what was passed as shared memory is something else");
    // A file, of which whoever has it open can cut something off: not of tmpfs, or not sealed.
    char name[] = "/tmp/wl-shared-XXXXXX";
    const Socket file(::mkostemp(name, O_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.fd(), k_bytes), 0);
    EXPECT_EQ(SharedMemory::open(file, k_bytes).error().code, Code::malformed);
    ::unlink(name);
}

TEST(SharedMemory, OfLargePagesIsRefused_B9) {
    constexpr size_t k_large = 2u << 20;
    const Socket descriptor(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
    if (!descriptor.valid() || ::ftruncate(descriptor.fd(), k_large) != 0 ||
        ::fcntl(descriptor.fd(), F_ADD_SEALS, k_all_seals) != 0)
        GTEST_SKIP() << "this kernel has no memory of large pages: " << std::strerror(errno);
    expect_refused(descriptor, "what was passed as shared memory is something else", k_large);
}

TEST(SharedMemory, WhatCannotBeWrittenIsRefused_B9) {
    const auto opened = SharedMemory::open(made(k_bytes, k_all_seals | F_SEAL_WRITE), k_bytes);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Code::io);
}

}  // namespace
}  // namespace warpline::net
