// What the processes that load a driver give up before they load it.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/config/settings.h"

namespace warpline::server {

/// Whether a process that gives up its privileges has none of setuid programs' either, and so no driver of it: those of
/// NVIDIA run nvidia-modprobe, which is setuid root, where device nodes are missing.
bool loses_setuid_programs(const config::Settings& settings);

/// Which process gives up what.
enum class Privileges : uint8_t {
    worker,  ///< may have neither the key nor what is kept of uploads
    keeper,  ///< has what is kept of uploads
};

/// Makes this process one that cannot read the server's private key: the user of `worker_user`, and the key hidden from it
/// where the kernel can do that; likewise the folder of what tenants have uploaded. To be called while the process has one
/// thread, and before it loads a driver, which is code that runs what clients say.
///
/// What is tied to the process's credentials (PR_SET_PDEATHSIG) has to be set again behind it.
///
/// @param problem  set when it fails: one sentence for the server's owner
/// @errors         not_configured (there is no such user, or this process is not root's), io
Result<void> give_up_privileges(const config::Settings& settings, Privileges what, std::string& problem);

/// Writes a line to the log for each way in which workers can read the key after all.
void warn_of_readable_key(const config::Settings& settings);

}  // namespace warpline::server
