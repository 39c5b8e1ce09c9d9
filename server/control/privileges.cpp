// Another user, and no key.
#include "server/control/privileges.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log/log.h"
#include "server/control/hidden_file.h"
#include "server/control/process_user.h"

namespace warpline::server {

bool loses_setuid_programs(const config::Settings& settings) {
    const bool stays_root = geteuid() == 0 && settings.text("worker_user").empty();
    return can_hide_files() && !stays_root;
}

Result<void> give_up_privileges(const config::Settings& settings, Privileges what, std::string& problem) {
    // As the user who gets everywhere on the way to the key.
    if (can_hide_files()) WL_TRY(hide_file(settings.path("key"), problem));
    const std::string& uploads = settings.path("upload_cache_folder");
    if (can_hide_files() && what != Privileges::keeper && !uploads.empty()) WL_TRY(hide_file(uploads, problem));
    const std::string& user = settings.text("worker_user");
    if (user.empty()) return {};
    WL_TRY(become_user({user, "a worker", "worker_user", UserChange::Groups::all}, problem));
    // Drivers read files of /proc/self that would be root's now.
    prctl(PR_SET_DUMPABLE, 1);
    return {};
}

void warn_of_readable_key(const config::Settings& settings) {
    if (!settings.text("worker_user").empty()) return;
    if (!can_hide_files()) {
        WL_LOG(warn, "server",
               "workers can read the server's private key: this kernel has no Landlock, or it is switched off, and workers "
               "run as the server's own user (worker_user)");
        return;
    }
    struct stat key {};
    if (stat(settings.path("key").c_str(), &key) == 0 && key.st_nlink > 1) {
        WL_LOG(warn, "server",
               "workers may be able to read the server's private key: {} has {} names (hard links), and it is hidden by one",
               settings.path("key"), key.st_nlink);
    }
}

}  // namespace warpline::server
