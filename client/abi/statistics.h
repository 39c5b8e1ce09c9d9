// What a process leaves behind about its calls and bytes, if it was asked to.
#pragma once

#include <string>

#include "client/state/foresight.h"

namespace warpline::client {

class Session;
struct ServerInfo;
struct SessionStats;

/// What there is to be said about a session and this process's calls: a JSON object in one line, without its end. What is no
/// UTF-8 in the names of others is replaced. Asks for the counts of all threads.
std::string statistics_json(const ServerInfo& server, const SessionStats& stats, const Foresight::Counts& foreseen);

/// Appends the line to a file. Lines of several processes do not mix. What fails is told by the log. @blocks for the file
void write_statistics(const Session& session, const Foresight& foresight, const std::string& path);

}  // namespace warpline::client
