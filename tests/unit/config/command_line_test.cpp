// Tests of command lines: flags, help, mistakes.
#include "common/config/command_line.h"

#include <gtest/gtest.h>

#include "temporary.h"

namespace warpline::config {
namespace {

using Outcome = CommandLine::Outcome;

CommandLine load(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "gpu-server");
    return load_server(static_cast<int>(arguments.size()), arguments.data());
}

class CommandLineTest : public testing::Test {
protected:
    // No file of this machine has a say.
    CommandLineTest() { m_environment.set("WARPLINE_SERVER_CONFIG", m_empty.path); }
    TemporaryFile m_empty{""};
    Environment m_environment;
};

TEST_F(CommandLineTest, FlagsAreStrongest) {
    TemporaryFile file("listen = '127.0.0.1:1'\nmax_sessions = 3\ndrain_seconds = 4\n");
    m_environment.set("WARPLINE_LISTEN", "127.0.0.1:2");
    m_environment.set("WARPLINE_MAX_SESSIONS", "7");
    CommandLine line = load({"--config", file.path.c_str(), "--listen", "127.0.0.1:3", "--cert=/a/b.crt", "--ready-fd", "5"});
    ASSERT_EQ(line.outcome, Outcome::run);
    EXPECT_EQ(line.settings.text_list("listen"), std::vector<std::string>{"127.0.0.1:3"});
    EXPECT_EQ(line.settings.origin("listen"), "--listen");
    EXPECT_EQ(line.settings.integer("max_sessions"), 7);
    EXPECT_EQ(line.settings.seconds("drain_seconds").count(), 4);
    EXPECT_EQ(line.settings.path("certificate"), "/a/b.crt");
    EXPECT_EQ(line.settings.integer("ready_fd"), 5);
}

TEST_F(CommandLineTest, HelpExplainsEveryFlag) {
    testing::internal::CaptureStdout();
    CommandLine line = load({"--help"});
    std::string text = testing::internal::GetCapturedStdout();
    EXPECT_EQ(line.outcome, Outcome::exit_success);
    for (const FlagHelp& flag : flag_help(Program::server))
        EXPECT_NE(text.find(flag.option->flag), std::string::npos) << flag.option->flag;
    EXPECT_NE(text.find("--config"), std::string::npos);
    EXPECT_NE(text.find("default 0.0.0.0:14833"), std::string::npos);
}

TEST_F(CommandLineTest, VersionGoesToStdout) {
    testing::internal::CaptureStdout();
    CommandLine line = load({"--version"});
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "gpu-server " WARPLINE_VERSION "\n");
    EXPECT_EQ(line.outcome, Outcome::exit_success);
}

TEST_F(CommandLineTest, MistakesGoToStderrAndFail) {
    for (std::vector<const char*> arguments :
         {std::vector<const char*>{"--no-such-flag"}, {"--max-sessions", "many"}, {"--config", "/nowhere.toml"}, {"word"}}) {
        testing::internal::CaptureStderr();
        CommandLine line = load(arguments);
        EXPECT_EQ(line.outcome, Outcome::exit_failure) << arguments[0];
        EXPECT_FALSE(testing::internal::GetCapturedStderr().empty()) << arguments[0];
    }
}

}  // namespace
}  // namespace warpline::config
