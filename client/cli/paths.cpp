// The places of an installation, seen from the executable.
#include "client/cli/paths.h"

#include <unistd.h>

#include <climits>

namespace warpline::cli {

namespace {

std::string folder_with_driver(const std::string& folder) {
    return ::access((folder + "/libcuda.so.1").c_str(), R_OK) == 0 ? folder : std::string();
}

/// The parent of bin/, for the paths beside it.
std::string root_folder() {
    std::string folder = program_folder();
    return folder.substr(0, folder.rfind('/'));
}

}  // namespace

std::string program_folder() {
    char path[PATH_MAX];
    ssize_t n = ::readlink("/proc/self/exe", path, sizeof(path));
    std::string text(path, n > 0 ? static_cast<size_t>(n) : 0);
    return text.substr(0, text.rfind('/'));
}

std::string client_library_folder() { return folder_with_driver(root_folder() + "/lib/warpline"); }

std::string direct_library_folder() { return folder_with_driver(root_folder() + "/lib/warpline/direct"); }

std::string nvrtc_library() {
    std::string path = root_folder() + "/lib/warpline/nvrtc.so";
    return ::access(path.c_str(), R_OK) == 0 ? path : std::string();
}

}  // namespace warpline::cli
