// Finding the right libcuda.so.1.
#include "bench/report/target.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/report/child.h"

namespace warpline::bench {

std::string Target::to_string() const {
    if (local) return tcp ? "a private server on this machine, over TCP and TLS" : "a private server on this machine";
    if (direct) return "the software GPU, without a server";
    if (native) return "this machine's own driver";
    if (!server.empty()) return "server " + server;
    const char* servers = std::getenv("WARPLINE_SERVERS");
    return servers != nullptr ? std::string("servers ") + servers : "the configured servers";
}

std::string Target::command_line() const {
    std::string line = "warpline-bench";
    for (const std::string& word : command)
        if (word != "--inside") line += " " + word;
    return line;
}

bool is_inside(const Target& target) {
    if (target.inside || target.native) return true;
    const std::string self = own_path(), warpline = self.substr(0, self.rfind('/') + 1) + "warpline";
    std::vector<std::string> words = {warpline, "run"};
    if (target.local) {
        words.push_back("--local");
        ::setenv("WARPLINE_MAX_SESSIONS", std::to_string(target.sessions).c_str(), 0);
    }
    if (target.tcp) words.push_back("--tcp");
    if (target.direct) words.push_back("--direct");
    if (!target.server.empty()) words.insert(words.end(), {"--server", target.server});
    words.insert(words.end(), {"--", self});
    words.insert(words.end(), target.command.begin(), target.command.end());
    words.push_back("--inside");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(warpline.c_str(), arguments.data());
    std::fprintf(stderr, "warpline-bench: %s: %s\n", warpline.c_str(), std::strerror(errno));
    return false;
}

}  // namespace warpline::bench
