// What is measured: a server, or something without one.
#pragma once

#include <string>
#include <vector>

namespace warpline::bench {

struct Target {
    std::string server;      ///< HOST:PORT; empty: that of WARPLINE_SERVERS, unless one of the following says otherwise
    bool local = false;      ///< a private server on this machine
    bool tcp = false;        ///< … reached as one elsewhere is
    bool direct = false;     ///< the software GPU in this process
    bool native = false;     ///< this machine's own driver, without Warpline
    bool inside = false;     ///< under `warpline run` already
    unsigned sessions = 64;  ///< that a private server is to take at a time
    std::vector<std::string> command;  ///< this program's arguments, as given

    /// In words.
    std::string to_string() const;
    /// The command as a person typed it.
    std::string command_line() const;
};

/// If this process is not where the target's libcuda.so.1 is found, goes on in its place under `warpline run`, and does not
/// return but for a failure, of which it has told. @return true: this is the process
bool is_inside(const Target& target);

}  // namespace warpline::bench
