// What a program tells who watches it, and whom the two of them talk to (C3, F3).
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/report/session_report.h"
#include "client/report/watch_socket.h"

namespace warpline::client {
namespace {

TEST(SessionReport, BothSidesUnderstandOneAnother_C3) {
    SessionReport report;
    report.session[15] = std::byte{1};
    report.session_key[0] = std::byte{2};
    report.server = "gpu.example:14833";
    report.ca = "/a/ca.crt";
    report.certificate = "/a/tenant.crt";
    report.key = "/a/tenant.key";
    report.grace = std::chrono::seconds(30);
    const auto message = encode_report(report);
    ASSERT_TRUE(message.ok());
    EXPECT_LT(message->size(), k_max_report_bytes);
    const auto read = decode_report(message->view());
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->session, report.session);
    EXPECT_EQ(read->session_key, report.session_key);
    EXPECT_EQ(read->server, report.server);
    EXPECT_EQ(read->ca, report.ca);
    EXPECT_EQ(read->certificate, report.certificate);
    EXPECT_EQ(read->key, report.key);
    EXPECT_EQ(read->grace, report.grace);
    EXPECT_FALSE(read->finished);
    report.finished = true;
    EXPECT_TRUE(decode_report(encode_report(report)->view())->finished);
}

TEST(SessionReport, RefusesWhatIsNone_F3) {
    EXPECT_EQ(decode_report({}).error().code, Code::malformed);
    EXPECT_EQ(decode_report(as_bytes(std::string_view("this is no message"))).error().code, Code::malformed);
    const auto message = encode_report({});
    for (size_t bytes = 0; bytes < message->size(); ++bytes) EXPECT_FALSE(decode_report(message->view().first(bytes)).ok());
}

TEST(WatchSocket, TheWatcherSeesWhoReports_C3) {
    std::string name;
    const auto listener = listen_for_reports(name);
    ASSERT_TRUE(listener.ok());
    const auto program = connect_to_watcher(name);
    ASSERT_TRUE(program.ok());
    const net::Socket accepted(::accept(listener->fd(), nullptr, nullptr));
    ASSERT_TRUE(accepted.valid());
    EXPECT_EQ(reporting_process(accepted.fd()), ::getpid());
}

TEST(WatchSocket, NobodyWatches_C3) {
    std::string name;
    ASSERT_TRUE(listen_for_reports(name).ok());  // and is gone again
    for (const std::string& none : {name, std::string(), std::string(200, 'x')})
        EXPECT_EQ(connect_to_watcher(none).error().code, Code::connect_refused);
}

TEST(WatchSocket, UsersAreAmongThemselves_F3) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    std::string name;
    const auto listener = listen_for_reports(name);
    ASSERT_TRUE(listener.ok());
    const pid_t stranger = ::fork();
    if (stranger == 0) ::_exit(::setuid(65534) == 0 && !connect_to_watcher(name).ok() ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(stranger, &status, 0), stranger);
    EXPECT_EQ(status, 0) << "a program has told another user's process its key";
    const net::Socket accepted(::accept(listener->fd(), nullptr, nullptr));
    ASSERT_TRUE(accepted.valid());
    EXPECT_FALSE(reporting_process(accepted.fd()).has_value());
}

}  // namespace
}  // namespace warpline::client
