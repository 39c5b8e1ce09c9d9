// Mounts of our own over /dev and /proc/driver.
#include "client/cli/device_files.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/cli/paths.h"

namespace warpline::cli {

namespace {

template <typename... Arguments>
bool call_nvml(void* library, const char* name, Arguments... arguments) {
    auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, name));
    return function != nullptr && function(arguments...) == 0;
}

/// What the library says, as JSON. Empty: nothing.
std::string ask_library() {
    void* library = ::dlopen((client_library_folder() + "/libnvidia-ml.so.1").c_str(), RTLD_NOW);
    if (library == nullptr || !call_nvml(library, "nvmlInit_v2")) return {};
    char version[96] = {};
    unsigned count = 0;
    call_nvml(library, "nvmlSystemGetDriverVersion", static_cast<char*>(version), 96u);
    if (!call_nvml(library, "nvmlDeviceGetCount_v2", &count)) return {};
    nlohmann::json said = {{"version", version}, {"devices", nlohmann::json::array()}};
    for (unsigned i = 0; i < count; ++i) {
        void* device = nullptr;
        char name[96] = {}, uuid[96] = {};
        struct {
            char legacy[16];
            unsigned numbers[5];
            char bus_id[32];
        } pci = {};
        call_nvml(library, "nvmlDeviceGetHandleByIndex_v2", i, &device);
        call_nvml(library, "nvmlDeviceGetName", device, static_cast<char*>(name), 96u);
        call_nvml(library, "nvmlDeviceGetUUID", device, static_cast<char*>(uuid), 96u);
        call_nvml(library, "nvmlDeviceGetPciInfo_v3", device, &pci);
        said["devices"].push_back({{"name", name}, {"uuid", uuid}, {"bus_id", pci.legacy}});
    }
    return said.dump();
}

bool write_file(const std::string& path, std::string_view text, int flags = O_CREAT | O_EXCL) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0444);
    if (fd < 0) return false;
    const bool written = text.empty() || ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    return ::close(fd) == 0 && written;
}

/// Another user's capabilities are in a namespace of users in which he is himself.
bool enter_namespaces() {
    if (::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0) return true;
    const std::string uid = std::to_string(::geteuid()), gid = std::to_string(::getegid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    return write_file("/proc/self/setgroups", "deny", 0) && write_file("/proc/self/uid_map", uid + " " + uid + " 1", 0) &&
           write_file("/proc/self/gid_map", gid + " " + gid + " 1", 0);
}

/// Brings an entry of the /dev of before into that of now.
bool bring(const std::string& before, int before_fd, const char* name) {
    struct stat status {};
    const std::string from = before + "/" + name, to = std::string("/dev/") + name;
    if (::fstatat(before_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return true;  // gone meanwhile
    if (S_ISLNK(status.st_mode)) {
        char target[PATH_MAX] = {};
        return ::readlinkat(before_fd, name, target, sizeof target - 1) >= 0 && ::symlink(target, to.c_str()) == 0;
    }
    const bool made = S_ISDIR(status.st_mode) ? ::mkdir(to.c_str(), 0755) == 0 : write_file(to, "");
    return made && ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

/// The whole /dev of before, with what is mounted in it, as long as nothing has been mounted over it; -1 where the kernel
/// (before 5.2) cannot.
int clone_dev() {
    constexpr unsigned k_clone = 1, k_recursive = 0x8000;  // OPEN_TREE_CLONE, AT_RECURSIVE: newer than the oldest glibc
    return static_cast<int>(::syscall(SYS_open_tree, AT_FDCWD, "/dev", k_clone | k_recursive | O_CLOEXEC));
}

/// Terminals are made by opening /dev/ptmx, which looks for pts beside itself, in the file system that it is in: alone, mounted
/// on a file, it finds none. So it stays where it was.
bool bring_terminals(int tree) {
    constexpr unsigned k_empty_path = 4;  // MOVE_MOUNT_F_EMPTY_PATH
    return ::mkdir("/dev/.before", 0755) == 0 &&
           ::syscall(SYS_move_mount, tree, "", AT_FDCWD, "/dev/.before", k_empty_path) == 0 &&
           ::symlink(".before/ptmx", "/dev/ptmx") == 0;
}

/// A /dev that takes new files, with everything that is in the one of before. What is wrong, if anything.
std::optional<std::string> renew_dev() {
    const int before_fd = ::open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (before_fd < 0) return "/dev cannot be read";
    const std::string before = "/proc/self/fd/" + std::to_string(before_fd);
    const int tree = clone_dev();
    DIR* entries = ::fdopendir(::openat(before_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::optional<std::string> problem;
    if (entries == nullptr || ::mount("warpline", "/dev", "tmpfs", MS_NOSUID, "mode=755") != 0)
        problem = "/dev cannot be mounted over";
    while (const dirent* entry = problem ? nullptr : ::readdir(entries)) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == ".." || name.starts_with("nvidia")) continue;
        if (name == "ptmx" && tree >= 0) {
            if (!bring_terminals(tree)) problem = "/dev/ptmx cannot be mounted again";
            continue;
        }
        if (!bring(before, before_fd, entry->d_name)) problem = "/dev/" + std::string(name) + " cannot be mounted again";
    }
    if (entries != nullptr) ::closedir(entries);
    ::close(before_fd);
    if (tree >= 0) ::close(tree);
    return problem;
}

/// As NVIDIA's kernel module writes them, but for who made it.
bool write_proc(const ShownDevices& shown) {
    const std::string root = "/proc/driver/nvidia";
    if (::mount("warpline", "/proc/driver", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755") != 0) return false;
    bool ok = ::mkdir(root.c_str(), 0755) == 0 && ::mkdir((root + "/gpus").c_str(), 0755) == 0;
    ok = ok &&
         write_file(root + "/version", "NVRM version: NVIDIA UNIX Kernel Module  " + shown.driver_version + "  (Warpline)\n");
    for (size_t i = 0; ok && i < shown.devices.size(); ++i) {
        const auto& device = shown.devices[i];
        const std::string folder = root + "/gpus/" + device.bus_id;
        ok = ::mkdir(folder.c_str(), 0755) == 0 &&
             write_file(folder + "/information", "Model: \t\t " + device.name + "\nGPU UUID: \t " + device.uuid +
                                                     "\nBus Location: \t " + device.bus_id + "\nDevice Minor: \t " +
                                                     std::to_string(i) + "\n");
    }
    return ok;
}

}  // namespace

/// In a process of its own: asking leaves threads, and who has threads enters no namespace.
bool ask_devices(const std::map<std::string, std::string>& environment, ShownDevices& shown) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    const pid_t child = ::fork();
    if (child == 0) {
        for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
        const std::string said = ask_library();
        const bool written = ::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
        ::_exit(written ? 0 : 1);
    }
    ::close(ends[1]);
    std::string text;
    char part[4096];
    for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0 || (n < 0 && errno == EINTR);)
        text.append(part, n > 0 ? static_cast<size_t>(n) : 0);
    ::close(ends[0]);
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    const auto said = nlohmann::json::parse(text, nullptr, false);
    if (!said.is_object()) return false;
    shown.driver_version = said["version"];
    for (const auto& device : said["devices"]) shown.devices.push_back({device["name"], device["uuid"], device["bus_id"]});
    return true;
}

bool show_device_files(const ShownDevices& shown, std::string& why) {
    const auto fail = [&why](const std::string& what) {
        why = "--device-files: " + what + ": " + std::strerror(errno);
        return false;
    };
    if (!enter_namespaces()) return fail("this system allows no mount namespace here");
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return fail("mounts cannot be made private");
    if (const auto problem = renew_dev()) return fail(*problem);
    bool made = write_file("/dev/nvidiactl", "") && write_file("/dev/nvidia-uvm", "");
    for (size_t i = 0; made && i < shown.devices.size(); ++i) made = write_file("/dev/nvidia" + std::to_string(i), "");
    if (!made) return fail("the files cannot be made");
    return write_proc(shown) || fail("/proc/driver/nvidia cannot be made");
}

}  // namespace warpline::cli
