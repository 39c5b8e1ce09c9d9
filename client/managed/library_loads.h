// The program's dlopen(): what it loads uses memory of both sides at once.
#pragma once

#include <cstdint>
#include <vector>

#include "client/managed/imports.h"

namespace warpline::client::library_loads {

/// Whether other threads load libraries. An object is there before its addresses are filled in.
class Others {
public:
    Others();
    bool have_loaded() const;  ///< true if one has, or has begun to, since this was made

private:
    uint64_t m_begun;
};

/// Adds dlopen(), where processors are known for which it can be done: glibc tells by the return address whose search path is
/// meant. Where that matters (a name without a directory, from a caller that has such a path), the call goes on as it is, and
/// the library is looked at before the next launch.
/// @param loaded  called when a library may have been loaded, by the thread that did
void add_to(std::vector<Import>& imports, void (*loaded)());

}  // namespace warpline::client::library_loads
