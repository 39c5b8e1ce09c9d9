// A process of this program's own, with pipes to speak with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/net/socket.h"

namespace warpline::bench {

class Child {
public:
    /// Starts this program again with these arguments; its standard input and output are the pipes. @errors io
    static Result<Child> start(const std::vector<std::string>& arguments);
    Child(Child&& other) noexcept;
    Child& operator=(Child&&) = delete;
    /// Waits for its end: it ends when its input does.
    ~Child();

    void write_line(const std::string& line);
    /// Without the line's end; empty at the end of its output. @blocks
    std::string read_line();
    /// Waits for its end. @return true for exit code 0
    bool ended_well();

private:
    Child(pid_t process, net::Socket connection) : m_process(process), m_connection(std::move(connection)) {}
    pid_t m_process;
    net::Socket m_connection;
};

/// The path of this program.
std::string own_path();

}  // namespace warpline::bench
