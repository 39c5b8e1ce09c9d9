// gpu-server: offers this machine's GPUs to Warpline's clients.
//
// One program, two roles. Started by a user or an init system it is the supervisor: it listens, routes connections, and starts
// further processes of itself, the workers. Each worker loads the CUDA driver and serves one session.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/command_line.h"
#include "common/log/log.h"
#include "server/control/worker_ends.h"
#include "server/daemon/listen_socket.h"
#include "server/daemon/supervisor.h"
#include "server/worker/worker.h"

namespace {

using namespace warpline;
using namespace warpline::server;

/// Takes the argument that makes us a worker out of the list, if it is there. @return the supervisor's process id, or 0
pid_t take_worker_argument(std::vector<std::string>& arguments) {
    if (arguments.empty() || !arguments.back().starts_with(k_worker_argument)) return 0;
    const std::string_view number = std::string_view(arguments.back()).substr(k_worker_argument.size());
    pid_t supervisor = 0;
    std::from_chars(number.data(), number.data() + number.size(), supervisor);
    arguments.pop_back();
    return supervisor;
}

int supervise(const config::Settings& settings, std::vector<std::string> arguments) {
    SupervisorOptions options;
    const std::string& listen = settings.text("listen");
    if (!split_address(listen, options.host, options.port)) {
        std::fprintf(stderr, "gpu-server: '%s' is no address to listen on (--listen ADDRESS:PORT)\n", listen.c_str());
        return EXIT_FAILURE;
    }
    const std::string& contexts = settings.text("ready_contexts");
    if (contexts != "none" && contexts != "first" && contexts != "all") {
        std::fprintf(stderr, "gpu-server: '%s' is not where contexts can be ready (--ready-contexts none, first or all)\n",
                     contexts.c_str());
        return EXIT_FAILURE;
    }
    options.max_sessions = static_cast<uint32_t>(settings.integer("max_sessions"));
    options.warm_workers = static_cast<uint32_t>(settings.integer("workers_ready"));
    options.drain = settings.seconds("drain_seconds");
    options.ready_fd = static_cast<int>(settings.integer("ready_fd"));
    auto supervisor = Supervisor::create(options, std::move(arguments));
    if (!supervisor.ok()) {
        std::fprintf(stderr, "gpu-server: %s: %s%s%s\n", listen.c_str(), supervisor.error().what,
                     supervisor.error().detail != 0 ? ": " : "",
                     supervisor.error().detail != 0 ? std::strerror(static_cast<int>(supervisor.error().detail)) : "");
        return EXIT_FAILURE;
    }
    return (*supervisor)->run();
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> arguments(argv, argv + argc);
    const pid_t supervisor = take_worker_argument(arguments);
    std::vector<const char*> flags;
    for (const std::string& argument : arguments) flags.push_back(argument.c_str());
    const config::CommandLine line = config::load_server(static_cast<int>(flags.size()), flags.data());
    if (line.outcome == config::CommandLine::Outcome::exit_success) return EXIT_SUCCESS;
    if (line.outcome == config::CommandLine::Outcome::exit_failure) return EXIT_FAILURE;
    log::configure(line.settings.text("log"));
    log::set_process_name(supervisor != 0 ? "worker" : "server");
    return supervisor != 0 ? worker_main(line.settings, supervisor) : supervise(line.settings, std::move(arguments));
}
