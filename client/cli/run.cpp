// The environment in which a program finds Warpline's driver.
#include "client/cli/run.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "client/cli/child.h"
#include "client/cli/device_files.h"
#include "client/cli/local_server.h"
#include "client/cli/paths.h"
#include "client/cli/watch.h"
#include "client/report/watch_socket.h"
#include "common/config/settings.h"
#include "common/log/log.h"

namespace warpline::cli {

namespace {

int cannot_execute(const std::string& program, int error) {
    std::fprintf(stderr, "warpline: %s: %s\n", program.c_str(), std::strerror(error));
    return error == ENOENT ? 127 : 126;
}

void apply(const std::map<std::string, std::string>& environment) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
}

/// A list of paths in the environment with one more in front.
std::string with_in_front(const char* variable, const std::string& path) {
    const char* now = std::getenv(variable);
    return now && *now ? path + ":" + now : path;
}

/// XLA (JAX) compiles with a compiler of its own, out of a preloaded library's reach: its flags ask for line information. What
/// the user says of it stays.
std::string xla_flags() {
    constexpr char k_flag[] = "--xla_gpu_generate_line_info";
    const char* now = std::getenv("XLA_FLAGS");
    const std::string given = now ? now : "";
    if (given.find(k_flag) != std::string::npos) return given;
    return given + (given.empty() ? "" : " ") + k_flag + "=true";
}

/// What makes a program find our libcuda.so.1 before any other.
std::map<std::string, std::string> environment_for(const RunOptions& options, const std::string& folder) {
    std::map<std::string, std::string> environment = {{"LD_LIBRARY_PATH", with_in_front("LD_LIBRARY_PATH", folder)}};
    // Where the software GPU executes, or may: a GPU runs what NVRTC then makes just as well.
    const bool software = options.direct || (options.local && options.driver != "nvidia");
    if (const std::string library = nvrtc_library(); software && !library.empty()) {
        environment["LD_PRELOAD"] = with_in_front("LD_PRELOAD", library);
    }
    if (software) environment["XLA_FLAGS"] = xla_flags();
    if (!options.server.empty()) environment["WARPLINE_SERVERS"] = options.server;
    if (!options.memory.empty()) environment["WARPLINE_MEMORY"] = options.memory;
    if (!options.stats.empty()) environment["WARPLINE_STATS"] = options.stats;
    if (!options.trace.empty()) environment["WARPLINE_TRACE"] = options.trace;
    return environment;
}

bool enter_with_files(const ShownDevices& shown) {
    std::string why;
    if (show_device_files(shown, why)) return true;
    std::fprintf(stderr, "warpline: %s\n", why.c_str());
    return false;
}

}  // namespace

int run(const RunOptions& options) {
    config::Settings settings(config::Program::client);
    if (std::string problem; !options.memory.empty() && !settings.set("memory", options.memory, "--memory", problem)) {
        std::fprintf(stderr, "warpline: %s", problem.c_str());
        return k_exit_failed;
    }
    std::string folder = options.direct ? direct_library_folder() : client_library_folder();
    if (folder.empty()) {
        std::fprintf(stderr, "warpline: no libcuda.so.1 beside %s: is the installation complete?\n", program_folder().c_str());
        return k_exit_failed;
    }
    std::map<std::string, std::string> environment = environment_for(options, folder);
    if (!options.local) {
        // The program takes this process's place. What is left to be done when it has died is the watcher's.
        if (!options.direct && options.server.empty()) {
            std::string problem;
            if (config::load_client(problem).text_list("servers").empty()) {
                std::fprintf(stderr,
                             "warpline: no server is named: set WARPLINE_SERVERS=HOST:PORT or use --server; --local starts a "
                             "private one\n");
                return k_exit_failed;
            }
        }
        if (!options.direct) {
            if (const std::string watcher = start_watcher(::getpid()); !watcher.empty()) {
                environment[client::k_report_variable] = watcher;
            } else {
                WL_LOG(info, "client", "no watcher can be started: servers will not be told of this program's death");
            }
        }
        ShownDevices shown;
        if (options.device_files && !ask_devices(environment, shown)) return k_exit_failed;
        apply(environment);
        if (options.device_files && !enter_with_files(shown)) return k_exit_failed;
        std::vector<char*> arguments;
        for (const std::string& word : options.command) arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        ::execvp(arguments[0], arguments.data());
        return cannot_execute(options.command[0], errno);
    }
    std::string why;
    auto server = LocalServer::start(options.driver, options.tcp, why);
    if (!server.ok()) {
        std::fprintf(stderr, "warpline: %s\n", why.c_str());
        return k_exit_failed;
    }
    environment.merge((*server)->environment());
    ShownDevices shown;
    if (options.device_files && !ask_devices(environment, shown)) return k_exit_failed;
    auto child = spawn(options.command, [&] {
        apply(environment);
        if (options.device_files && !enter_with_files(shown)) ::_exit(k_exit_failed);
    });
    if (!child.ok()) return cannot_execute(options.command[0], static_cast<int>(child.error().detail));
    return wait_for(*child);
}

}  // namespace warpline::cli
