#pragma once

namespace warpline::client {

class Session;

/// Appends one line, a JSON object, to the file that WARPLINE_STATS names; nothing if it is not set. Lines of several processes
/// do not mix.
void write_statistics(const Session& session);

}  // namespace warpline::client
