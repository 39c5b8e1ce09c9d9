// The program's dlopen(): what it loads uses memory of both sides at once.
#pragma once

#include <vector>

#include "client/managed/imports.h"

namespace warpline::client::library_loads {

/// Adds dlopen(), where processors are known for which it can be done: glibc tells by the return address whose search path is
/// meant. Where that matters (a name without a directory, from a caller that has such a path), the call goes on as it is, and
/// the library is looked at before the next launch.
/// @param loaded  called when a library may have been loaded, by the thread that did
void add_to(std::vector<Import>& imports, void (*loaded)());

}  // namespace warpline::client::library_loads
