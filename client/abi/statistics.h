// What a process leaves behind about its calls and bytes, if it was asked to.
#pragma once

#include <string>

namespace warpline::client {

class Session;

/// Appends one line, a JSON object, to a file. Lines of several processes do not mix.
void write_statistics(const Session& session, const std::string& path);

}  // namespace warpline::client
