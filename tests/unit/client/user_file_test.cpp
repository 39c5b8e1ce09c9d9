// Files that programs share, and a program that is stopped with one in its hands (C4).
#include "client/pool/user_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <vector>

#include "client/pool/quarantine.h"
#include "client/pool/turn.h"

namespace warpline::client {
namespace {

using namespace std::chrono_literals;

/// A folder for the files of a user, who is this test's own.
class UserFileTest : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/wl-user-file-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        m_folder = name;
        setenv("XDG_RUNTIME_DIR", name, 1);
    }
    void TearDown() override {
        unsetenv("XDG_RUNTIME_DIR");
        std::filesystem::remove_all(m_folder);
    }
    std::string m_folder;
};

/// A process that has files, and is stopped.
class StoppedProgram {
public:
    explicit StoppedProgram(std::initializer_list<const char*> names) : m_pid(fork()) {
        if (m_pid == 0) {
            std::vector<UserFile> files;
            for (const char* name : names) {
                auto file = UserFile::open(name);
                if (!file.ok()) _exit(1);
                files.push_back(std::move(*file));
            }
            raise(SIGSTOP);
            _exit(0);
        }
        int status = 0;
        waitpid(m_pid, &status, WUNTRACED);
        EXPECT_TRUE(WIFSTOPPED(status));
    }
    ~StoppedProgram() { end(); }
    void end() {
        if (m_pid <= 0) return;
        kill(m_pid, SIGKILL);
        waitpid(m_pid, nullptr, 0);
        m_pid = -1;
    }

private:
    pid_t m_pid;
};

TEST_F(UserFileTest, AStoppedProgramHoldsUpNobody_C4) {
    StoppedProgram stopped({"resting", "turn"});
    const auto began = std::chrono::steady_clock::now();
    const auto file = UserFile::open("resting");
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, Code::deadline);
    EXPECT_GE(std::chrono::steady_clock::now() - began, 100ms) << "it is given the time that it has the file for";
    const Quarantine quarantine(60s);
    quarantine.failed("a:1", {Code::connect_refused, ""});
    EXPECT_EQ(quarantine.resting({"a:1"}), std::vector<bool>{false}) << "nobody knows";
    EXPECT_NE(next_turn(), next_turn()) << "by chance";
    stopped.end();
    quarantine.failed("a:1", {Code::connect_refused, ""});
    EXPECT_EQ(quarantine.resting({"a:1"}), std::vector<bool>{true});
    const uint64_t turn = next_turn();
    EXPECT_EQ(next_turn(), turn + 1);
}

TEST_F(UserFileTest, WhoComesWhileItIsInUseGetsIt_C4) {
    auto first = UserFile::open("turn");
    ASSERT_TRUE(first.ok());
    first->write("first");
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        // Its own open file, not the one that it has from its parent.
        { const UserFile inherited = std::move(*first); }
        static_cast<void>(!write(ready[1], "r", 1));
        // A parent without a processor may take longer than one attempt.
        for (int attempt = 0; attempt < 100; ++attempt) {
            if (auto second = UserFile::open("turn"); second.ok()) _exit(second->read(16) == "second" ? 0 : 1);
        }
        _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    first->write("second");
    { const UserFile done = std::move(*first); }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    close(ready[0]);
    close(ready[1]);
}

}  // namespace
}  // namespace warpline::client
