// Text that a driver writes to its standard error, on its way into the log.
#pragma once

#include <cstddef>

#include "common/base/bytes.h"

namespace warpline::server {

/// Writes all of a text, as far as the descriptor takes it. @blocks as the descriptor does
void write_text(int fd, BytesView text);
/// What a driver writes to its standard error on its way into the log. Whoever wrote the program wrote some of that text (the
/// expression of an assertion), so it can neither control a terminal nor look like a line of the log, and has an end.
class DriverText {
public:
    static constexpr size_t k_max_column = 1024;            ///< of a line; the rest is left out
    static constexpr size_t k_max_bytes = size_t{1} << 20;  ///< in all

    /// Writes a piece: each line with "driver: " before it, everything that is no printable ASCII as \xNN.
    void write(int fd, BytesView text);

private:
    size_t m_column = 0;
    size_t m_written_bytes = 0;
    bool m_full = false;
};

/// Copies what a pipe of a driver's holds at the moment. @param from_fd non-blocking
void copy_pending(int from_fd, int to_fd);

}  // namespace warpline::server
