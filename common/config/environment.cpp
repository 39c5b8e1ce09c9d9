// The environment of now, or of the start.
#include "common/config/environment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace warpline::config {

namespace {

/// NAME=VALUE, each with a zero behind it. Never destroyed: who asks keeps what is in there.
const std::string& initial() {
    static const std::string& text = *new std::string([] {
        std::string read;
        const int file = ::open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
        if (file < 0) return read;
        char piece[4096];
        for (ssize_t size = 0; (size = ::read(file, piece, sizeof piece)) > 0;) read.append(piece, static_cast<size_t>(size));
        ::close(file);
        return read;
    }());
    return text;
}

}  // namespace

const char* variable(const char* name) {
    if (environ != nullptr && *environ != nullptr) return std::getenv(name);
    const std::string& text = initial();
    const size_t length = std::strlen(name);
    for (size_t at = 0; at < text.size(); at += std::strlen(text.c_str() + at) + 1)
        if (text.compare(at, length, name) == 0 && text[at + length] == '=') return text.c_str() + at + length + 1;
    return nullptr;
}

}  // namespace warpline::config
