// Tests of certificates for one machine.
#include "common/net/certificates.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/net/tls_pair.h"

namespace warpline::net {
namespace {

using namespace test;

struct TemporaryFolder {
    TemporaryFolder() {
        static int count = 0;
        std::string name = "warpline-certificates-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
        path = (std::filesystem::temp_directory_path() / name).string();
        std::filesystem::create_directory(path);
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path); }
    std::string path;
};

TEST(LocalCertificates, ConnectAndAreTheOwnersOnly_E1) {
    TemporaryFolder folder;
    std::string certificates = folder.path + "/made";
    ASSERT_TRUE(write_local_certificates(certificates).ok());
    struct stat status;
    for (const char* name : {"ca.pem", "server.pem", "server.key", "client.pem", "client.key"}) {
        ASSERT_EQ(::stat((certificates + "/" + name).c_str(), &status), 0) << name;
        EXPECT_EQ(status.st_mode & 0777, 0600u) << name;
    }
    std::string why;
    auto load = [&](const std::string& who) {
        return load_credentials(certificates + "/ca.pem", certificates + "/" + who + ".pem", certificates + "/" + who + ".key",
                                why);
    };
    for (const char* name : {"localhost", "127.0.0.1", "::1"}) {
        Pair pair = connect_pair(load("client").value(), load("server").value(), name);
        ASSERT_TRUE(pair.client.channel) << pair.client.why;
        ASSERT_TRUE(pair.server.channel) << pair.server.why;
        EXPECT_EQ(pair.server.channel->peer_name(), "local");
    }
}

TEST(LocalCertificates, OneSetDoesNotOpenAnother_F1) {
    TemporaryFolder folder;
    ASSERT_TRUE(write_local_certificates(folder.path + "/a").ok());
    ASSERT_TRUE(write_local_certificates(folder.path + "/b").ok());
    std::string why;
    auto a = load_credentials(folder.path + "/a/ca.pem", folder.path + "/a/client.pem", folder.path + "/a/client.key", why);
    auto b = load_credentials(folder.path + "/b/ca.pem", folder.path + "/b/server.pem", folder.path + "/b/server.key", why);
    ASSERT_TRUE(a.ok() && b.ok()) << why;
    EXPECT_EQ(connect_pair(*a, *b).client.error.code, Code::auth_failed);
}

TEST(LocalCertificates, CanBeMadeAgainAndFailClearly) {
    TemporaryFolder folder;
    ASSERT_TRUE(write_local_certificates(folder.path).ok());
    EXPECT_TRUE(write_local_certificates(folder.path).ok());
    EXPECT_EQ(write_local_certificates(folder.path + "/no/such/place").error().code, Code::io);
}

TEST(ThrowawayCa, RefusesNamesThatAreMoreThanOne_F1) {
    EXPECT_FALSE(our_ca().issue({"server", TlsRole::server, {"a,DNS:b"}}).ok());
    EXPECT_FALSE(our_ca().issue({"server", TlsRole::server, {""}}).ok());
}

TEST(ThrowawayCa, RefusesItsOwnName_F1) {
    auto ca = ThrowawayCa::create("same");
    ASSERT_TRUE(ca.ok());
    EXPECT_EQ(ca->issue({"same", TlsRole::client, {}}).error().code, Code::bad_argument);
}

}  // namespace
}  // namespace warpline::net
