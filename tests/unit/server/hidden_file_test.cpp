// A file that a process cannot read, whatever it tries (F3).
#include "server/control/hidden_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "server/control/file_names.h"

namespace warpline::server {
namespace {

namespace fs = std::filesystem;

/// 0, or the errno of an attempt to read.
int error_of_reading(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    char byte = 0;
    const ssize_t got = read(fd, &byte, 1);
    close(fd);
    return got == 1 ? 0 : EIO;
}

/// The texts that a process of its own writes, from which a file is hidden after it has prepared itself.
std::string hidden_from(
    const std::string& path, const std::function<std::string()>& attempt,
    const std::function<bool()>& prepare = [] { return true; }) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
        std::string problem;
        std::string said = "cannot prepare";
        if (prepare()) said = hide_file(path, problem).ok() ? attempt() : problem;
        static_cast<void>(!write(ends[1], said.data(), said.size()));
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
    close(ends[0]);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    return text;
}

std::string errors_of_reading(const std::vector<std::string>& paths) {
    std::string text;
    for (const std::string& path : paths) text += std::to_string(error_of_reading(path)) + " ";
    return text;
}

/// folder/
///     keys/key  keys/secret (0600)  keys/certificate (0644)  keys/beside/file
///     other/file
class HiddenFile : public testing::Test {
protected:
    void SetUp() override {
        if (!can_hide_files()) GTEST_SKIP() << "this kernel has no Landlock, or it is switched off";
        char name[] = "/tmp/wl-hidden-file-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        m_folder = name;
        for (const char* folder : {"/keys", "/keys/beside", "/other"}) fs::create_directory(m_folder + folder);
        for (const char* file : {"/keys/key", "/keys/secret", "/keys/certificate", "/keys/beside/file", "/other/file"})
            make(m_folder + file, file == std::string_view("/keys/certificate") ? 0644 : 0600);
    }
    void TearDown() override { fs::remove_all(m_folder); }

    static void make(const std::string& path, mode_t mode = 0600) {
        std::ofstream(path) << path;
        ASSERT_EQ(chmod(path.c_str(), mode), 0);
    }
    const std::string key() const { return m_folder + "/keys/key"; }

    std::string m_folder;
};

TEST_F(HiddenFile, F3_IsHiddenAndWhatIsBesideTheWayToItIsNot) {
    const std::string said = hidden_from(key(), [this] {
        return errors_of_reading({key(), "/proc/self/root" + key(), m_folder + "/keys/beside/file", m_folder + "/other/file",
                                  m_folder + "/keys/certificate", "/etc/passwd", "/proc/self/status", "/dev/zero"});
    });
    EXPECT_EQ(said, "13 13 0 0 0 0 0 0 ");  // 13: EACCES
}

TEST_F(HiddenFile, F3_SoAreFilesBesideItThatAreNotForEverybodyAndNewOnes) {
    const std::string said = hidden_from(key(), [this] {
        make(m_folder + "/keys/new", 0644);
        make(m_folder + "/keys/beside/new");
        make(m_folder + "/other/new");
        return errors_of_reading(
            {m_folder + "/keys/secret", m_folder + "/keys/new", m_folder + "/keys/beside/new", m_folder + "/other/new"});
    });
    EXPECT_EQ(said, "13 13 0 0 ");
}

TEST_F(HiddenFile, F3_SymbolicLinksLeadNowhere) {
    fs::create_symlink("../keys/key", m_folder + "/other/link");
    fs::create_symlink(m_folder + "/other", m_folder + "/way");
    const std::string configured = m_folder + "/way/link";
    const std::string said = hidden_from(configured, [&] {
        fs::create_symlink(key(), m_folder + "/other/later");
        const std::string errors = errors_of_reading(
            {key(), configured, m_folder + "/other/link", m_folder + "/other/later", m_folder + "/other/file"});
        // The link becomes a file: the next key.
        fs::remove(m_folder + "/other/link");
        make(m_folder + "/other/link", 0644);
        return errors + errors_of_reading({m_folder + "/other/link"});
    });
    EXPECT_EQ(said, "13 13 13 13 13 13 ") << "other/ is on the way, and its file is not for everybody";
}

TEST_F(HiddenFile, F3_LinkingAndMovingDoNotHelp) {
    const auto failure = [](int result) { return std::to_string(result == 0 ? 0 : errno) + " "; };
    const std::string said = hidden_from(key(), [&] {
        std::string text = failure(link(key().c_str(), (m_folder + "/other/key").c_str()));
        text += failure(rename(key().c_str(), (m_folder + "/other/key").c_str()));
        text += failure(rename((m_folder + "/keys").c_str(), (m_folder + "/other/keys").c_str()));
        // Within its folder, and over what may be read.
        text += failure(link(key().c_str(), (m_folder + "/keys/linked").c_str()));
        text += failure(rename(key().c_str(), (m_folder + "/keys/certificate").c_str()));
        return text + errors_of_reading({m_folder + "/keys/linked", m_folder + "/keys/certificate"});
    });
    EXPECT_EQ(said, "18 18 18 0 0 13 13 ");  // 18: EXDEV
}

TEST_F(HiddenFile, F3_OthersMoveTheirFilesAsEver) {
    const std::string said = hidden_from(key(), [this] {
        const int moved = rename((m_folder + "/other/file").c_str(), (m_folder + "/keys/beside/moved").c_str());
        return std::to_string(moved) + " " + errors_of_reading({m_folder + "/keys/beside/moved"});
    });
    EXPECT_EQ(said, "0 0 ");
}

TEST_F(HiddenFile, F3_ItsOtherNamesInItsFolderAreHiddenToo) {
    fs::create_hard_link(key(), m_folder + "/keys/again");
    ASSERT_EQ(chmod(key().c_str(), 0644), 0);
    const std::string said = hidden_from(key(), [this] { return errors_of_reading({m_folder + "/keys/again"}); });
    EXPECT_EQ(said, "13 ");
}

TEST_F(HiddenFile, F3_OtherProcessesAreClosed) {
    const std::string ours = "/proc/" + std::to_string(getpid());
    const std::string said = hidden_from(key(), [&] {
        return errors_of_reading({ours + "/mem", ours + "/fd/0", ours + "/root" + key(), ours + "/root/etc/passwd"});
    });
    EXPECT_EQ(said, "13 13 13 13 ");
}

TEST_F(HiddenFile, F3_OtherMountsOfItsFileSystemAreFound) {
    fs::create_directories(m_folder + "/mounts/part");
    fs::create_directories(m_folder + "/mounts/all");
    const auto mounted = [&] {
        return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               mount((m_folder + "/keys").c_str(), (m_folder + "/mounts/part").c_str(), nullptr, MS_BIND, nullptr) == 0 &&
               mount("/", (m_folder + "/mounts/all").c_str(), nullptr, MS_BIND, nullptr) == 0;
    };
    const std::string part = m_folder + "/mounts/part", all = m_folder + "/mounts/all" + m_folder;
    const std::string said = hidden_from(
        key(),
        [&] {
            return errors_of_reading({key(), part + "/key", all + "/keys/key", part + "/beside/file", all + "/other/file"});
        },
        mounted);
    if (said == "cannot prepare") GTEST_SKIP() << "this user mounts nothing";
    EXPECT_EQ(said, "13 13 13 0 0 ");
}

TEST_F(HiddenFile, F3_NamesAreFollowedLinkByLink) {
    fs::create_symlink("keys", m_folder + "/now");
    fs::create_symlink("now/key", m_folder + "/first");
    const auto names = names_of(m_folder + "/first");
    ASSERT_TRUE(names.ok());
    EXPECT_TRUE(names->contains(m_folder + "/first"));
    EXPECT_TRUE(names->contains(key()));
    EXPECT_FALSE(names->contains(m_folder + "/now/key"));
    fs::create_symlink("circle", m_folder + "/circle");
    EXPECT_FALSE(names_of(m_folder + "/circle").ok());
    EXPECT_TRUE(names_of(m_folder + "/keys/not there").ok());
}

TEST_F(HiddenFile, F3_AFileThatIsNotThereYetIsHiddenWhenItIs) {
    const std::string path = m_folder + "/keys/later";
    const std::string said = hidden_from(path, [&] {
        make(path, 0644);
        return errors_of_reading({path, m_folder + "/keys/certificate"});
    });
    EXPECT_EQ(said, "13 0 ");
}

}  // namespace
}  // namespace warpline::server
