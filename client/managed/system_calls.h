// The program's reads and writes of files and sockets whose bytes are in memory that it shares with the device.
#pragma once

namespace warpline::client::system_calls {

/// The kernel of the machine can only find memory that is in place, and says EFAULT otherwise, where a GPU's driver brings the
/// pages. So what the program calls of the C library to read and write (read, recvmsg, fwrite and the like) brings them first.
/// Called where such memory is allocated, and before pages are given away, since there may be new libraries; cheap where there
/// are none.
/// @thread any, without a lock: it takes the dynamic linker's, under which programs run, too
void attend();

}  // namespace warpline::client::system_calls
