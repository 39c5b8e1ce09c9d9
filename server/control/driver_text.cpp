// Text that comes from a driver is made harmless before it reaches a log.
#include "server/control/driver_text.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

namespace warpline::server {

void write_text(int fd, BytesView text) {
    while (!text.empty()) {
        const ssize_t written = write(fd, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text = text.subspan(static_cast<size_t>(written));
    }
}

void DriverText::write(int fd, BytesView text) {
    std::string out;
    const auto put = [&](std::string_view part) {
        out += part;
        m_written_bytes += part.size();
    };
    for (const std::byte byte : text) {
        if (m_written_bytes > k_max_bytes) break;
        const auto c = static_cast<unsigned char>(byte);
        if (c == '\n') {
            if (m_column != 0) put("\n");
            m_column = 0;
            continue;
        }
        if (m_column == k_max_column) put(" […]");
        if (m_column++ >= k_max_column) continue;
        if (m_column == 1) put("driver: ");
        if (c == '\t' || (c >= 0x20 && c < 0x7f)) {
            put({reinterpret_cast<const char*>(&c), 1});
        } else {
            char escaped[5];
            std::snprintf(escaped, sizeof escaped, "\\x%02x", c);
            put(escaped);
        }
    }
    if (m_written_bytes > k_max_bytes && !m_full) {
        m_full = true;
        out += "\ndriver: no more of this session's output is copied here\n";
    }
    write_text(fd, as_bytes(out));
}

void copy_pending(int from_fd, int to_fd) {
    DriverText text;
    std::byte buffer[4096];
    for (;;) {
        const ssize_t got = read(from_fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        text.write(to_fd, {buffer, static_cast<size_t>(got)});
    }
}

}  // namespace warpline::server
