// One question after the other.
#include "server/gauge/gauge.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/log/log.h"
#include "server/control/control.h"
#include "server/control/privileges.h"
#include "server/control/worker_ends.h"
#include "server/driver/nvml.h"

namespace warpline::server {

int gauge_main(const config::Settings& settings, pid_t supervisor) {
    for (int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);  // writes tell of it
    // What a terminal or systemd sends to all of us is for the supervisor to act on.
    for (int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
    std::string problem;
    if (!give_up_privileges(settings, Privileges::worker, problem).ok()) {
        WL_LOG(error, "server", "how busy the GPUs are is not known: {}", problem);
        return 1;
    }
    // After the change of users, which undoes it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (getppid() != supervisor) return 1;
    ControlChannel control(k_helper_control_fd);
    std::unique_ptr<Nvml> nvml;
    std::string told;
    for (;;) {
        const auto message = control.receive(true);
        if (!message.ok()) return 0;
        ReadyMessage offer;
        const bool survey = message->kind == ControlKind::survey;
        if ((message->kind != ControlKind::measure && !survey) || !message->read(offer)) return 1;
        // Again and again: the library may be installed, or the driver mended, while we run.
        if (nvml == nullptr) nvml = Nvml::load(settings.path("nvml"), offer, problem);
        if (nvml == nullptr && std::exchange(told, problem) != problem) {
            // A software GPU need not have one.
            const bool expected = offer.software != 0 && settings.path("nvml") == "auto";
            if (expected) WL_LOG(info, "server", "how busy the GPUs are is not known: {}", problem);
            if (!expected) WL_LOG(warn, "server", "how busy the GPUs are is not known: {}", problem);
        }
        LoadMessage load{};
        const uint32_t devices = std::min<uint32_t>(offer.device_count, k_max_devices);
        load.device_count = nvml != nullptr ? devices : 0;
        for (uint32_t i = 0; i < load.device_count; ++i) load.devices[i] = nvml->read(offer.devices[i]);
        for (uint32_t i = 0; survey && i < load.device_count; ++i) {
            if (!control.send(ControlKind::sheet, used_part(nvml->sheet(offer, i))).ok()) return 0;
        }
        if (!control.send(ControlKind::measured, load).ok()) return 0;
    }
}

}  // namespace warpline::server
