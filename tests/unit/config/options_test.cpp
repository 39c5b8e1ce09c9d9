// Tests of the options' description, and of the page made from it.
#include "common/config/options.h"

#include <gtest/gtest.h>

#include <set>

namespace warpline::config {
namespace {

TEST(Options, DescriptionIsComplete) {
    std::set<std::pair<Program, std::string_view>> names, flags, variables;
    for (const Option& option : options()) {
        SCOPED_TRACE(option.name);
        EXPECT_TRUE(names.emplace(option.program, option.name).second);
        if (!option.flag.empty()) {
            EXPECT_TRUE(flags.emplace(option.program, option.flag).second);
            EXPECT_TRUE(option.flag.starts_with("--"));
        }
        if (!option.environment.empty()) {
            EXPECT_TRUE(variables.emplace(option.program, option.environment).second);
        }
        EXPECT_TRUE(option.in_file || !option.flag.empty() || !option.environment.empty()) << "it can be set nowhere";
        EXPECT_GT(option.help.size(), 10u);
        EXPECT_EQ(option.help.back(), '.');
        if (!option.cost.empty()) {
            EXPECT_EQ(option.cost.back(), '.');
        }
        EXPECT_EQ(option.help.find('|'), std::string_view::npos) << "would break the table";
        if (option.type == Type::bytes) {
            EXPECT_EQ(option.unit, "bytes");
        }
        if (option.type == Type::seconds) {
            EXPECT_EQ(option.unit, "seconds");
        }
        EXPECT_EQ(find_option(option.program, option.name), &option);
    }
    EXPECT_EQ(find_option(Program::server, "servers"), nullptr) << "that one is the client's";
}

TEST(Options, PageNamesEveryOption) {
    std::string page = documentation();
    for (const Option& option : options()) {
        if (!option.environment.empty()) {
            EXPECT_NE(page.find("`" + std::string(option.environment) + "`"), std::string::npos) << option.name;
        }
        if (!option.flag.empty()) {
            EXPECT_NE(page.find("`" + std::string(option.flag) + "`"), std::string::npos) << option.name;
        }
    }
}

}  // namespace
}  // namespace warpline::config
