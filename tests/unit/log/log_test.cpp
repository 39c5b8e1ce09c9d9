// What is written when nobody reads it.
#include "common/log/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "common/log/never_wait.h"

namespace warpline::log {
namespace {

TEST(Log, AThreadThatMustNotWaitLeavesLinesOutAndTheyAreCounted_C1) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    // Full: as the pipe of a program whose output nobody reads.
    ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    const std::string block(4096, 'x');
    size_t filled = 0;
    for (ssize_t n; (n = ::write(ends[1], block.data(), block.size())) > 0;) filled += static_cast<size_t>(n);
    ASSERT_GT(filled, 0u);
    ASSERT_EQ(::fcntl(ends[1], F_SETFL, 0), 0);

    set_output(ends[1]);
    std::thread([] {
        const NeverWait here;
        WL_LOG(error, "test", "the first");
        WL_LOG(error, "test", "the second");
    }).join();  // for ever, if it waits
    std::string text(filled, '\0');
    for (size_t got = 0; got < filled;) {
        ssize_t n = ::read(ends[0], text.data() + got, filled - got);
        ASSERT_GT(n, 0);
        got += static_cast<size_t>(n);
    }
    std::thread([] {
        const NeverWait here;
        WL_LOG(error, "test", "the third");
    }).join();
    WL_LOG(error, "test", "the last");
    set_output(2);
    ::close(ends[1]);
    text.assign(65536, '\0');
    ssize_t total = 0;
    for (ssize_t n; (n = ::read(ends[0], text.data() + total, text.size() - static_cast<size_t>(total))) > 0;) total += n;
    ::close(ends[0]);
    text.resize(static_cast<size_t>(total));
    EXPECT_EQ(text.find("the first"), std::string::npos) << text;
    EXPECT_EQ(text.find("warpline: 2 log lines were left out"), 0u) << text;
    EXPECT_NE(text.find("test: the third\n"), std::string::npos) << text;
    EXPECT_NE(text.find("test: the last\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("left out", 50), std::string::npos) << text;
}

}  // namespace
}  // namespace warpline::log
