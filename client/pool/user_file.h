// Small files that the programs of a user share on a machine.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace warpline::client {

/// A file of the user's ($XDG_RUNTIME_DIR/warpline-NAME-UID, else in /tmp), locked while this object lives.
class UserFile {
public:
    /// @errors io: there can be no such file, or somebody else has put one there; deadline: another program has it all the
    /// time,
    ///         which the log tells
    /// @blocks while another program has it, 100 ms at most
    static Result<UserFile> open(std::string_view name);
    UserFile(UserFile&& other) noexcept;
    UserFile& operator=(UserFile&&) = delete;
    ~UserFile();

    /// The first bytes of the file, at most `most_bytes`.
    std::string read(size_t most_bytes) const;
    /// Replaces what is in it.
    void write(std::string_view text);

private:
    explicit UserFile(int fd) : m_fd(fd) {}
    int m_fd;
};

}  // namespace warpline::client
