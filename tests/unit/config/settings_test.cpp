// Tests of values from files, the environment and flags.
#include "common/config/settings.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary.h"

namespace warpline::config {
namespace {

using std::chrono::seconds;

TEST(Settings, DefaultsAreValues) {
    Settings server(Program::server);
    EXPECT_EQ(server.text_list("listen"), std::vector<std::string>{"0.0.0.0:14833"});
    EXPECT_EQ(server.seconds("drain_seconds"), seconds(30));
    EXPECT_EQ(server.bytes("memory_credit"), uint64_t{1} << 30);
    EXPECT_EQ(server.integer("ready_fd"), -1);
    EXPECT_EQ(server.text_list("devices"), std::vector<std::string>{"all"});
    EXPECT_EQ(server.origin("listen"), "default");
    EXPECT_EQ(server.written("memory_credit"), "1GiB");
    Settings client(Program::client);
    EXPECT_TRUE(client.text_list("servers").empty());
    EXPECT_EQ(client.path("stats"), "");
}

TEST(Settings, SizesListsAndHome) {
    Settings server(Program::server);
    std::string problem;
    for (auto [text, value] : std::vector<std::pair<const char*, uint64_t>>{{"4096", 4096},
                                                                            {"64KiB", 65536},
                                                                            {"3 MiB", 3 << 20},
                                                                            {"2G", uint64_t{2} << 30},
                                                                            {"1TB", uint64_t{1} << 40},
                                                                            {"7B", 7}}) {
        EXPECT_TRUE(server.set("memory_credit", text, "test", problem)) << problem;
        EXPECT_EQ(server.bytes("memory_credit"), value);
    }
    for (const char* wrong : {"", "x", "-1", "1.5GiB", "1Q", "1GiBs", "99999999TiB", "9223372036854775807K"}) {
        problem.clear();
        EXPECT_FALSE(server.set("memory_credit", wrong, "test", problem)) << wrong;
        EXPECT_NE(problem.find("test: memory_credit = '"), std::string::npos) << problem;
    }
    EXPECT_EQ(server.bytes("memory_credit"), 7u) << "a refused value changes nothing";
    Settings client(Program::client);
    EXPECT_TRUE(client.set("servers", " a:1 ,, b:2,", "test", problem));
    EXPECT_EQ(client.text_list("servers"), (std::vector<std::string>{"a:1", "b:2"}));
    Environment environment;
    environment.set("HOME", "/home/somebody");
    EXPECT_EQ(client.path("certificate"), "/home/somebody/.config/warpline/tenant.crt");
    EXPECT_EQ(expand_home("/abs/~/x"), "/abs/~/x");
}

TEST(Settings, BoundsAreKept) {
    Settings server(Program::server);
    std::string problem;
    EXPECT_FALSE(server.set("max_sessions", "0", "flag", problem));
    EXPECT_EQ(problem, "flag: max_sessions = '0' is not between 1 and 4096\n");
    // With less a copy that travels with its call would have no room.
    EXPECT_FALSE(server.set("credit_bytes", "1MiB", "flag", problem));
    EXPECT_TRUE(server.set("credit_bytes", "2MiB", "flag", problem));
    EXPECT_TRUE(server.set("max_sessions", "4096", "flag", problem));
}

TEST(ConfigFile, IsReadWithTheOriginOfEachValue) {
    TemporaryFile file(
        "# a comment\nlisten = \"127.0.0.1:1\"\nmax_sessions = 5\nmemory_credit = \"2GiB\"\ncredit_bytes = 2097152\ndevices = "
        "[0, \"GPU-1\"]\n");
    Settings server(Program::server);
    std::string problem;
    ASSERT_TRUE(load_file(file.path, server, problem)) << problem;
    EXPECT_EQ(server.text_list("listen"), std::vector<std::string>{"127.0.0.1:1"});
    EXPECT_EQ(server.origin("listen"), file.path + ":2");
    EXPECT_EQ(server.integer("max_sessions"), 5);
    EXPECT_EQ(server.bytes("memory_credit"), uint64_t{2} << 30);
    EXPECT_EQ(server.bytes("credit_bytes"), 2097152u);
    EXPECT_EQ(server.text_list("devices"), (std::vector<std::string>{"0", "GPU-1"}));
    EXPECT_EQ(server.origin("drain_seconds"), "default");
}

TEST(ConfigFile, MistakesNameTheLine) {
    struct Row {
        const char* text;
        const char* problem;
    };
    for (const Row& row :
         {Row{"\nlissten = \"x\"\n", ":2: unknown option 'lissten'; did you mean 'listen'?\n"},
          Row{"completely_different = 1\n", ":1: unknown option 'completely_different'\n"},
          Row{"ready_fd = 3\n", ":1: unknown option 'ready_fd'\n"}, Row{"servers = 'a:1'\n", ":1: unknown option 'servers'"},
          Row{"max_sessions = 'many'\n", ":1: max_sessions = 'many' is not a whole number\n"},
          Row{"max_sessions = 1.5\n", ":1: max_sessions cannot be set to a value of this kind\n"},
          Row{"driver = ['a']\n", ":1: driver cannot be set to a value of this kind\n"},
          Row{"[server]\nlisten = 'x'\n", ":1: unknown option 'server'"}, Row{"listen = \n", ":1: "},
          Row{"\n\n= 3\n", ":3: "}}) {
        TemporaryFile file(row.text);
        Settings server(Program::server);
        std::string problem;
        EXPECT_FALSE(load_file(file.path, server, problem)) << row.text;
        EXPECT_TRUE(problem.starts_with(file.path + row.problem)) << problem;
        EXPECT_EQ(server.text_list("listen"), std::vector<std::string>{"0.0.0.0:14833"});
    }
}

TEST(ConfigFile, AllMistakesAreReportedAtOnce) {
    TemporaryFile file("a = 1\nmax_sessions = 0\nlisten = '[::]:9'\n");
    Settings server(Program::server);
    std::string problem;
    EXPECT_FALSE(load_file(file.path, server, problem));
    EXPECT_EQ(std::count(problem.begin(), problem.end(), '\n'), 2);
    EXPECT_EQ(server.text_list("listen"), std::vector<std::string>{"[::]:9"});
    EXPECT_FALSE(load_file("/nowhere/server.toml", server, problem));
}

TEST(Environment, IsStrongerThanTheFile) {
    TemporaryFile file("servers = ['a:1']\nlog = 'debug'\nconnect_timeout = 3\n", "client.toml");
    Environment environment;
    environment.set("WARPLINE_CONFIG", file.path);
    environment.set("WARPLINE_SERVERS", "b:2,c:3");
    environment.set("WARPLINE_CONNECT_TIMEOUT", "soon");
    std::string problem;
    Settings client = load_client(problem);
    EXPECT_EQ(client.text_list("servers"), (std::vector<std::string>{"b:2", "c:3"}));
    EXPECT_EQ(client.origin("servers"), "WARPLINE_SERVERS");
    EXPECT_EQ(client.text("log"), "debug");
    EXPECT_EQ(client.seconds("connect_timeout"), seconds(3)) << "a refused value leaves the weaker one";
    EXPECT_EQ(problem, "WARPLINE_CONNECT_TIMEOUT: connect_timeout = 'soon' is not a whole number\n");
}

TEST(Environment, NamedFileThatIsMissingIsReported) {
    Environment environment;
    environment.set("WARPLINE_CONFIG", "/nowhere/client.toml");
    std::string problem;
    load_client(problem);
    EXPECT_NE(problem.find("/nowhere/client.toml"), std::string::npos);
}

TEST(SettingsDeathTest, AskingForWhatIsNotDescribedIsABug) {
    Settings server(Program::server);
    EXPECT_DEATH((void)server.text("no such option"), "no such option");
    EXPECT_DEATH((void)server.text("max_sessions"), "max_sessions");
}

}  // namespace
}  // namespace warpline::config
