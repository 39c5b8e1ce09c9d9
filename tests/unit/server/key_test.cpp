// Workers cannot read the server's private key, whatever a session makes of them (F1, F3).
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "server/control/hidden_file.h"
#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

namespace fs = std::filesystem;

/// A folder that was there before the server, with a list of files for a worker to open in it.
class Key : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/wl-key-test-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        m_folder = name;
        ASSERT_EQ(chmod(name, 0755), 0);
        setenv("FAKE_DRIVER_FILES", (m_folder + "/list").c_str(), 1);
    }
    void TearDown() override {
        unsetenv("FAKE_DRIVER_FILES");
        fs::remove_all(m_folder);
    }
    /// What a worker with a session gets when it opens these files: its errno for each.
    std::string opened(const ServerProcess& server, FakeClient& client, const std::vector<std::string>& paths) const {
        std::ofstream list(m_folder + "/list");
        for (const std::string& path : paths) list << path << "\n";
        list.close();
        Program program{client};
        program.load();
        program.launch(program.function("open_files", 0), {});
        EXPECT_EQ(program.synchronize().result, 0) << server.log();
        std::istringstream lines(client.output());
        std::string errors;
        for (std::string path, error; lines >> path >> error;) errors += error + " ";
        return errors;
    }

    std::string m_folder;
};

TEST_F(Key, F3_AWorkerCannotReadIt) {
    if (!can_hide_files()) GTEST_SKIP() << "this kernel has no Landlock, or it is switched off";
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    const std::string key = server.directory() + "/server.key";
    fs::create_symlink(key, m_folder + "/link");
    const std::string door = "/proc/" + std::to_string(server.door()), supervisor = "/proc/" + std::to_string(server.pid());
    const std::string errors =
        opened(server, *client,
               {key, m_folder + "/link", "/proc/self/root" + key, door + "/root" + key, door + "/mem", door + "/fd/0",
                supervisor + "/root" + key, supervisor + "/mem", m_folder + "/list", "/etc/passwd"});
    EXPECT_EQ(errors, "13 13 13 13 13 13 13 13 0 0 ");  // 13: EACCES
    EXPECT_EQ(server.log().find("workers can read"), std::string::npos);
}

TEST_F(Key, F3_AHardLinkOfItIsTold) {
    if (!can_hide_files()) GTEST_SKIP() << "this kernel has no Landlock, or it is switched off";
    ASSERT_TRUE(net::write_local_certificates(m_folder).ok());
    fs::create_hard_link(m_folder + "/server.key", m_folder + "/again");
    ServerProcess server({"--key=" + m_folder + "/server.key", "--cert=" + m_folder + "/server.pem"});
    ASSERT_TRUE(server.ready());
    EXPECT_TRUE(server.wait_log("has 2 names (hard links)"));
}

TEST_F(Key, F3_WorkersRunAsAUserOfTheirOwn) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
    const passwd* nobody = getpwnam("nobody");
    ASSERT_NE(nobody, nullptr);
    ServerProcess server({"--worker-user=nobody"});
    ASSERT_TRUE(server.ready());
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    for (const pid_t worker : server.workers()) EXPECT_EQ(users_of(worker), std::vector<uid_t>(4, nobody->pw_uid));
    EXPECT_EQ(users_of(server.door()), std::vector<uid_t>(4, 0)) << "only the workers";
    EXPECT_EQ(
        opened(server, *client, {server.directory() + "/server.key", "/etc/shadow", "/proc/self/environ", m_folder + "/list"}),
        "13 13 0 0 ");
    // What a worker has from the supervisor works on.
    Program program{*client};
    program.map(k_window, k_block);
    program.put(k_window, as_bytes("all is well"));
    EXPECT_EQ(program.get(k_window, 11).payload, "all is well");
    const auto workers = server.workers();
    server.signal(SIGKILL);
    for (const pid_t worker : workers) EXPECT_TRUE(wait_end(worker)) << "it ends with its supervisor";
}

TEST_F(Key, F3_AWorkerUserThatIsNotThereStopsTheServer) {
    ServerProcess server({"--worker-user=no-such-user-of-ours"});
    EXPECT_FALSE(server.ready());
    EXPECT_TRUE(server.wait_log("worker_user"));
    EXPECT_EQ(server.wait_exit(), 1);
}

TEST_F(Key, F3_DoorAndWorkersNeedUsersOfTheirOwn) {
    ServerProcess server({"--worker-user=nobody", "--door-user=nobody"});
    EXPECT_FALSE(server.ready());
    EXPECT_TRUE(server.wait_log("'nobody' is both's (door_user, worker_user)"));
    EXPECT_EQ(server.wait_exit(), 1);
}

/// For this thread and the processes that it starts, Landlock is not there.
bool forget_landlock() {
    sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

TEST_F(Key, F3_WithoutLandlockTheServerSaysSo) {
    std::thread([this] {
        ASSERT_TRUE(forget_landlock());
        ASSERT_FALSE(can_hide_files());
        ServerProcess server;
        ASSERT_TRUE(server.ready());
        EXPECT_TRUE(server.wait_log("workers can read the server's private key: this kernel has no Landlock"));
        const auto client = server.client();
        ASSERT_NE(client, nullptr);
        // The key, as it says; the door's memory only for who may look into everybody's.
        const auto key_and_door = [](const ServerProcess& of) {
            return std::vector{of.directory() + "/server.key", "/proc/" + std::to_string(of.door()) + "/mem"};
        };
        EXPECT_EQ(opened(server, *client, key_and_door(server)), geteuid() == 0 ? "0 0 " : "0 13 ");
        if (geteuid() != 0) return;
        ServerProcess other({"--worker-user=nobody"});
        ASSERT_TRUE(other.ready());
        const auto others = other.client();
        ASSERT_NE(others, nullptr);
        EXPECT_EQ(opened(other, *others, key_and_door(other)), "13 13 ");
        EXPECT_EQ(other.log().find("workers can read"), std::string::npos);
    }).join();
}

}  // namespace

}  // namespace warpline::server::test
