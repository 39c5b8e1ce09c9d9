// The life of the server's processes: start, drain, stop, death of each.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

using namespace std::chrono_literals;

bool is_alive(pid_t pid) { return kill(pid, 0) == 0; }

/// True once none of the processes exists any more.
bool all_end(const std::vector<pid_t>& pids) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (std::any_of(pids.begin(), pids.end(), is_alive)) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(5ms);
    }
    return true;
}

TEST(Daemon, E6_SigtermWithoutSessionsEndsAtOnce) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    const auto workers = server.workers();
    EXPECT_FALSE(workers.empty());
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait_exit(), 0);
    EXPECT_TRUE(all_end(workers));
}

TEST(Daemon, E6_DrainWaitsForSessionsAndTakesNoNewOnes) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    auto client = server.client_of_drain();
    ASSERT_NE(client, nullptr);
    std::string why;
    EXPECT_EQ(FakeClient::connect(server.port(), server.client_credentials(), why), nullptr);
    EXPECT_EQ((Program{*client}.synchronize().result), 0);
    client->say_goodbye();
    EXPECT_EQ(server.wait_exit(), 0);
}

TEST(Daemon, E6_TheDrainTimeEndsSessionsWithAReason) {
    ServerProcess server({"--drain-seconds=1"});
    ASSERT_TRUE(server.ready());
    auto client = server.client();
    ASSERT_NE(client, nullptr);
    server.signal(SIGTERM);
    EXPECT_TRUE(client->wait_end());
    EXPECT_NE(client->close_reason().find("shutting down"), std::string::npos) << client->close_reason();
    EXPECT_EQ(server.wait_exit(), 0);
}

TEST(Daemon, E6_ASecondSignalStopsAtOnce) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    auto client = server.client();
    ASSERT_NE(client, nullptr);
    const auto workers = server.workers();
    server.signal(SIGTERM);
    EXPECT_TRUE(server.wait_log("draining"));
    server.signal(SIGINT);
    EXPECT_EQ(server.wait_exit(), 0);
    EXPECT_TRUE(client->wait_end());
    EXPECT_TRUE(all_end(workers));
}

TEST(Daemon, C5_WorkersDieWithTheSupervisor) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    auto client = server.client();
    ASSERT_NE(client, nullptr);
    const auto workers = server.workers();
    EXPECT_GE(workers.size(), 1u);
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait_exit(), 128 + SIGKILL);
    EXPECT_TRUE(client->wait_end());
    EXPECT_TRUE(all_end(workers));
}

TEST(Daemon, C5_AKilledWorkerIsReplaced) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    auto client = server.client();
    ASSERT_NE(client, nullptr);
    const auto workers = server.workers();
    for (const pid_t worker : workers) kill(worker, SIGKILL);
    EXPECT_TRUE(client->wait_end());
    EXPECT_TRUE(all_end(workers));
    EXPECT_TRUE(server.wait_log("killed by signal 9"));
    EXPECT_NE(server.client(), nullptr);
}

TEST(Daemon, F1_SighupReplacesIdleWorkersOnly) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    auto client = server.client();
    ASSERT_NE(client, nullptr);
    server.signal(SIGHUP);
    EXPECT_TRUE(server.wait_log("SIGHUP"));
    EXPECT_EQ((Program{*client}.synchronize().result), 0);
    EXPECT_NE(server.client(), nullptr);
}

TEST(Daemon, ABrokenDriverIsReportedAndEndsTheServer) {
    setenv("FAKE_DRIVER_BROKEN", "1", 1);
    ServerProcess server;
    unsetenv("FAKE_DRIVER_BROKEN");
    EXPECT_FALSE(server.ready());
    EXPECT_EQ(server.wait_exit(), 1);
    EXPECT_NE(server.log().find("cuInit"), std::string::npos) << server.log();
}

TEST(Daemon, ADriverMayTalkBeforeThereIsASession) {
    setenv("FAKE_DRIVER_CHATTY", "1", 1);
    ServerProcess server;
    unsetenv("FAKE_DRIVER_CHATTY");
    ASSERT_TRUE(server.ready());
    EXPECT_TRUE(server.wait_log("line 3999 of what it has to say"));
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    EXPECT_EQ((Program{*client}.synchronize().result), 0);
    EXPECT_EQ(client->output(), "") << "said before the session";
}

/// A variable of the environment that the server inherits.
struct Variable {
    Variable(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
    ~Variable() { unsetenv(name); }
    const char* name;
};

size_t count_of(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

TEST(Daemon, A2_ADriverThatIsSlowToBeginIsNamed) {
    const Variable slow("FAKE_DRIVER_INIT_MS", "5500");
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    EXPECT_NE(server.log().find("does not return from cuInit"), std::string::npos) << server.log();
}

TEST(Daemon, C19_TheDevicesAreLookedAtOnceAndContextsMadeWhereSessionsGo) {
    const Variable tells("FAKE_DRIVER_TELLS", "1");
    ServerProcess server({"--workers-ready=2", "--ready-contexts=none"});
    ASSERT_TRUE(server.ready());
    std::vector<std::unique_ptr<FakeClient>> clients;
    for (int i = 0; i < 3; ++i) {
        clients.push_back(server.client());
        ASSERT_NE(clients.back(), nullptr);
        EXPECT_EQ((Program{*clients.back()}.synchronize().result), 0);
    }
    // What is written to a worker's standard error is in the log before its client is answered.
    EXPECT_EQ(count_of(server.log(), "context made"), 4u) << "one for the inventory, one for each session";
}

TEST(Daemon, C19_AWorkerThatIsReadyHasTheContextsItIsToldTo) {
    const Variable tells("FAKE_DRIVER_TELLS", "1");
    ServerProcess server({"--workers-ready=1", "--ready-contexts=first"});
    ASSERT_TRUE(server.ready());
    EXPECT_TRUE(server.wait_log("context made"));
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    EXPECT_EQ((Program{*client}.synchronize().result), 0);
    EXPECT_GE(count_of(server.log(), "context made"), 2u) << "one for the inventory, one that stays";
}

TEST(Daemon, ContextsThatCannotBeReadyAreRefused) {
    ServerProcess server({"--ready-contexts=some"});
    EXPECT_FALSE(server.ready());
    EXPECT_EQ(server.wait_exit(), 1);
    EXPECT_NE(server.log().find("none, first or all"), std::string::npos) << server.log();
}

TEST(Daemon, B11_ADeviceForOneProcessIsLeftToSessions) {
    // In a folder that is there before: new files beside the folder of the server's key are not for workers.
    char folder[] = "/tmp/wl-exclusive-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const Variable exclusive("FAKE_DRIVER_EXCLUSIVE", (std::string(folder) + "/lock").c_str());
    ServerProcess server({"--workers-ready=2"});
    ASSERT_TRUE(server.ready());
    auto first = server.client();
    auto second = server.client();
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ((Program{*first}.synchronize().result), 0);
    EXPECT_EQ((Program{*second}.synchronize().result), CUDA_ERROR_DEVICE_UNAVAILABLE);
    first->say_goodbye();
    EXPECT_TRUE(first->wait_end());
    EXPECT_TRUE(server.wait_log("session end"));
    EXPECT_EQ((Program{*second}.synchronize().result), 0) << "no worker that is ready has taken it";
    std::filesystem::remove_all(folder);
}

TEST(Daemon, B10_TheDriverMayMakeItsDeviceNodes) {
    const std::string node = testing::TempDir() + "fake-driver-node-" + std::to_string(getpid());
    const Variable nodes("FAKE_DRIVER_NEEDS_NODE", node.c_str());
    // A worker of root's could make them itself.
    const ServerProcess server(geteuid() == 0 ? std::vector<std::string>{"--worker-user=nobody"} : std::vector<std::string>{});
    EXPECT_TRUE(server.ready()) << server.log();
    EXPECT_EQ(std::remove(node.c_str()), 0) << "it was made";
}

TEST(Daemon, C18_WhoWaitsSleeps) {
    const Variable tells("FAKE_DRIVER_TELLS", "1");
    ServerProcess server({"--ready-contexts=none"});
    ASSERT_TRUE(server.ready());
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    client->send<wire::CuEventCreate>(CallId::cuEventCreate, [](auto b) { b.setPhEvent(k_event); });
    EXPECT_EQ((Program{*client}.synchronize().result), 0);
    EXPECT_EQ(count_of(server.log(), "context made, flags 4"), 2u) << server.log();  // CU_CTX_SCHED_BLOCKING_SYNC
    EXPECT_EQ(count_of(server.log(), "event made, flags 1"), 1u) << server.log();    // CU_EVENT_BLOCKING_SYNC
}

TEST(Daemon, AMissingDriverIsReported) {
    ServerProcess server({"--driver=/nonexistent/libcuda.so"});
    EXPECT_FALSE(server.ready());
    EXPECT_EQ(server.wait_exit(), 1);
    EXPECT_NE(server.log().find("/nonexistent/libcuda.so"), std::string::npos) << server.log();
}

TEST(Daemon, AMissingCertificateIsReported) {
    ServerProcess server({"--cert=/nonexistent/server.crt"});
    EXPECT_FALSE(server.ready());
    EXPECT_EQ(server.wait_exit(), 1);
    EXPECT_NE(server.log().find("/nonexistent/server.crt"), std::string::npos) << server.log();
}

}  // namespace
}  // namespace warpline::server::test
