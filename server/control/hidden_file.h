// A file that a process can never read.
#pragma once

#include <string>

#include "common/base/result.h"

namespace warpline::server {

/// Whether this kernel can hide files from a process (Landlock, Linux 5.13, if it is switched on). Asks each time.
bool can_hide_files();

/// For good, hides a file from this process, its later threads and its children: opening it to read fails with EACCES, by
/// whatever path and link, and it cannot be moved or linked to another folder. Whatever else can be read stays readable,
/// but for what lies directly in the folders on the way to the file, from the root on: files that not everybody may read,
/// and what is made there later. Files are still renamed and linked between other folders (from Linux 5.19 on).
///
/// The process can from then on not look into others (ptrace(2), `/proc/PID/mem`, `root`, `fd` …) but its children. Sets
/// PR_SET_NO_NEW_PRIVS. What it has open stays open.
///
/// To be called while the process has one thread.
///
/// @param problem  set when it fails: one sentence for the server's owner
/// @errors         io (the kernel refuses, or the folders cannot be looked into; detail errno)
Result<void> hide_file(const std::string& path, std::string& problem);

}  // namespace warpline::server
