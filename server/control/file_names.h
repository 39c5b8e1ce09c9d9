// Where a file can be reached.
#pragma once

#include <set>
#include <string>

#include "common/base/result.h"

namespace warpline::server {

/// All paths by which a file can be reached that follow from how it is named: the one that is asked for, each symbolic link
/// that leads on from there, the file itself, and the same file where its file system is mounted elsewhere. Absolute, with no
/// link in their folders. The file need not be there. Hard links are not found: only the whole file system knows them.
///
/// @errors  io (a folder on the way cannot be looked into, or /proc is not mounted; detail errno)
Result<std::set<std::string>> names_of(const std::string& path);

}  // namespace warpline::server
