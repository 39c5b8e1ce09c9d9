// Other processes, for tests of what processes share.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "tests/unit/softgpu_driver/library.h"

/// Tests with several processes. The test program itself never initialises the driver, so that its children can.
namespace softgpu_test {

/// One end of a connection between two children.
class Peer {
public:
    /// @param other  the process at the other end; 0: not known
    Peer(int socket, pid_t other) : m_socket(socket), m_other(other) {}
    template <typename T>
    void send(const T& value) const {
        send_bytes(&value, sizeof(value));
    }
    /// Waits for the other side. Ends the process if that has ended.
    template <typename T>
    T receive() const {
        T value{};
        receive_bytes(&value, sizeof(value));
        return value;
    }
    void send_fd(int fd) const;
    int receive_fd() const;
    /// Waits until the other process has ended, and nothing that it had open is open any more: the connection alone may end
    /// before the rest. For the second one.
    bool ended() const;
    /// The other side goes on when this side does the same.
    void meet() const {
        send(char{1});
        (void)receive<char>();
    }

private:
    void send_bytes(const void* data, size_t size) const;
    void receive_bytes(void* data, size_t size) const;
    const int m_socket;
    const pid_t m_other;
};

using Child = void (*)(Peer&);
enum class Ends { both, first_is_killed };

/// Runs two children with a context each, which talk to each other; waits for them. What fails in a child fails the test.
void run_pair(Child first, Child second, Ends ends = Ends::both);

}  // namespace softgpu_test
