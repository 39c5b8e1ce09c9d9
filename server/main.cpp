// gpu-server: offers this machine's GPUs to Warpline's clients.
//
// One program, five roles. Started by a user or an init system it is the supervisor: it listens, routes connections, and
// starts further processes of itself: workers, each of which loads the CUDA driver and serves one session, the door, which
// speaks with clients who have no session, and, when somebody asks how busy the GPUs are, the gauge, and
// the keeper of what tenants upload.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/command_line.h"
#include "common/config/switches.h"
#include "common/log/log.h"
#include "common/net/socket.h"
#include "common/net/tls.h"
#include "server/cache/keeper.h"
#include "server/control/operator_socket.h"
#include "server/control/privileges.h"
#include "server/control/worker_ends.h"
#include "server/daemon/listen_socket.h"
#include "server/daemon/operator_command.h"
#include "server/daemon/supervisor.h"
#include "server/door/door.h"
#include "server/driver/device_nodes.h"
#include "server/gauge/gauge.h"
#include "server/worker/worker.h"

namespace {

using namespace warpline;
using namespace warpline::server;

/// Takes an argument that gives us a role out of the list, if it is there. @return the supervisor's process id, or 0
pid_t take_role(std::vector<std::string>& arguments, std::string_view role) {
    if (arguments.empty() || !arguments.back().starts_with(role)) return 0;
    const std::string_view number = std::string_view(arguments.back()).substr(role.size());
    pid_t supervisor = 0;
    std::from_chars(number.data(), number.data() + number.size(), supervisor);
    arguments.pop_back();
    return supervisor;
}

int supervise(const config::Settings& settings, std::vector<std::string> arguments) {
    SupervisorOptions options;
    options.listen = settings.text_list("listen");
    for (const std::string& listen : options.listen) {
        if (is_listen_address(listen)) continue;
        std::fprintf(
            stderr,
            "gpu-server: '%s' is no address to listen on (--listen ADDRESS:PORT, unix:PATH or vsock:PORT, or several)\n",
            listen.c_str());
        return EXIT_FAILURE;
    }
    if (options.listen.empty()) {
        std::fprintf(stderr, "gpu-server: there is no address to listen on (--listen)\n");
        return EXIT_FAILURE;
    }
    const auto mode = unix_mode_of(settings.text("unix_mode"));
    if (!mode) {
        std::fprintf(stderr, "gpu-server: '%s' is no mode of a file, such as 0660 (--unix-mode)\n",
                     settings.text("unix_mode").c_str());
        return EXIT_FAILURE;
    }
    options.unix_mode = *mode;
    const std::string& contexts = settings.text("ready_contexts");
    if (contexts != "none" && contexts != "first" && contexts != "all") {
        std::fprintf(stderr, "gpu-server: '%s' is not where contexts can be ready (--ready-contexts none, first or all)\n",
                     contexts.c_str());
        return EXIT_FAILURE;
    }
    const std::string& door_user = settings.text("door_user");
    if (!door_user.empty() && door_user == settings.text("worker_user")) {
        std::fprintf(
            stderr,
            "gpu-server: the door and the workers need users of their own, and '%s' is both's (door_user, worker_user)\n",
            door_user.c_str());
        return EXIT_FAILURE;
    }
    warn_of_readable_key(settings);
    // Workers could not.
    if (loses_setuid_programs(settings)) let_driver_make_device_nodes(settings.path("driver"));
    options.max_sessions = static_cast<uint32_t>(settings.integer("max_sessions"));
    options.warm_workers = static_cast<uint32_t>(settings.integer("workers_ready"));
    options.drain = settings.seconds("drain_seconds");
    options.nvml = settings.path("nvml");
    std::string problem;
    const config::Switches switches(settings, problem);
    options.keeps_uploads = switches.uses(config::Optimisation::cache) && settings.bytes("upload_cache") > 0;
    options.takes_turns = switches.uses(config::Optimisation::turns);
    if (options.keeps_uploads) make_upload_folder(settings);
    for (const char* file : {"certificate", "key", "ca"}) options.certificates.push_back(settings.path(file));
    options.ready_fd = static_cast<int>(settings.integer("ready_fd"));
    std::string which;
    auto supervisor = Supervisor::create(options, std::move(arguments), which);
    if (!supervisor.ok()) {
        std::fprintf(stderr, "gpu-server: %s: %s%s%s\n", which.c_str(), supervisor.error().what,
                     supervisor.error().detail != 0 ? ": " : "",
                     supervisor.error().detail != 0 ? std::strerror(static_cast<int>(supervisor.error().detail)) : "");
        return EXIT_FAILURE;
    }
    return (*supervisor)->run();
}

/// `gpu-server status` and `gpu-server drain`.
int look_after(const config::CommandLine& line) {
    const auto addresses = line.settings.text_list("listen");
    const std::string listen = addresses.empty() ? "" : addresses.front();
    const std::string address = operator_address(listen);
    if (address.empty()) {
        std::fprintf(stderr, "gpu-server: '%s' is no address of a server (--listen ADDRESS:PORT, as the server has it)\n",
                     listen.c_str());
        return EXIT_FAILURE;
    }
    if (line.command == config::CommandLine::Command::status) return operator_status(address, line.json, line.ready);
    return operator_drain(address, line.wait);
}

/// What the option `disable` says of all connections of this process. What it has wrong, supervisor and workers tell.
void leave_out_of_connections(const config::Settings& settings) {
    std::string problem;
    const config::Switches switches(settings, problem);
    net::use_wide_aes(switches.uses(config::Optimisation::aes));
    net::use_bbr(switches.uses(config::Optimisation::congestion));
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> arguments(argv, argv + argc);
    const pid_t worker_of = take_role(arguments, k_worker_argument);
    const pid_t door_of = worker_of != 0 ? 0 : take_role(arguments, k_door_argument);
    const pid_t gauge_of = worker_of != 0 || door_of != 0 ? 0 : take_role(arguments, k_gauge_argument);
    const pid_t keeper_of = worker_of != 0 || door_of != 0 || gauge_of != 0 ? 0 : take_role(arguments, k_keeper_argument);
    std::vector<const char*> flags;
    for (const std::string& argument : arguments) flags.push_back(argument.c_str());
    const config::CommandLine line = config::load_server(static_cast<int>(flags.size()), flags.data());
    if (line.outcome == config::CommandLine::Outcome::exit_success) return EXIT_SUCCESS;
    if (line.outcome == config::CommandLine::Outcome::exit_failure) return EXIT_FAILURE;
    if (line.command != config::CommandLine::Command::serve) return look_after(line);
    log::configure(line.settings.text("log"));
    log::set_process_name(worker_of != 0   ? "worker"
                          : door_of != 0   ? "door"
                          : gauge_of != 0  ? "gauge"
                          : keeper_of != 0 ? "keeper"
                                           : "server");
    leave_out_of_connections(line.settings);
    if (worker_of != 0) return worker_main(line.settings, worker_of);
    if (gauge_of != 0) return gauge_main(line.settings, gauge_of);
    if (keeper_of != 0) return keeper_main(line.settings, keeper_of);
    return door_of != 0 ? door_main(line.settings, door_of) : supervise(line.settings, std::move(arguments));
}
