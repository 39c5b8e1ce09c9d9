// Who is let in without a certificate (B9, F2).
#include "server/door/unix_tenants.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

namespace warpline::server {
namespace {

std::string tenant_of(const std::vector<std::string>& entries, uint32_t user) {
    std::string problem, why;
    const auto tenants = UnixTenants::parse(entries, problem);
    EXPECT_TRUE(tenants.ok()) << problem;
    const auto tenant = tenants.ok() ? tenants->tenant_of({user, 1}, why) : Result<std::string>(tenants.error());
    EXPECT_TRUE(tenant.ok() || tenant.error().code == Code::denied);
    EXPECT_NE(tenant.ok(), why.find("unix_tenants") != std::string::npos) << why;
    return tenant.ok() ? *tenant : "-";
}

TEST(UnixTenants, NobodyUnlessTheServersOwnerSaysSo_B9) {
    EXPECT_EQ(tenant_of({}, geteuid()), "-");
    EXPECT_EQ(tenant_of({}, 0), "-");
}

TEST(UnixTenants, SelfIsTheServersUserAndRoot_B9) {
    EXPECT_EQ(tenant_of({"self"}, geteuid()), getpwuid(geteuid())->pw_name);
    EXPECT_EQ(tenant_of({"self"}, 0), "root");
    EXPECT_EQ(tenant_of({"self=team"}, geteuid()), "team");
    EXPECT_EQ(tenant_of({"self"}, 4711), "-");
    EXPECT_EQ(tenant_of({"self"}, 65534), "-") << "whom the kernel names for users that it cannot";
}

TEST(UnixTenants, UsersByNameAndNumber_B9) {
    const std::vector<std::string> entries = {"4711=blue", "4712", "root=admins", "self"};
    EXPECT_EQ(tenant_of(entries, 4711), "blue");
    EXPECT_EQ(tenant_of(entries, 4712), "4712");
    EXPECT_EQ(tenant_of(entries, 0), "admins");
    EXPECT_EQ(tenant_of(entries, 4713), "-");
}

TEST(UnixTenants, WhatMakesNoSenseIsRefused_B9) {
    for (const char* entry : {"no-such-user-here", "", "=team", "4711=", "4711=a\nb", "-1"}) {
        std::string problem;
        EXPECT_FALSE(UnixTenants::parse({entry}, problem).ok()) << entry;
        EXPECT_NE(problem.find("unix_tenants"), std::string::npos) << problem;
    }
}

}  // namespace
}  // namespace warpline::server
