// What a session that took its worker over would try; kernels of the fake driver.
#pragma once

namespace warpline::server {

/// Tries what an intruder is after, whichever system calls lead there, and prints what of it succeeds.
void break_out();

/// Tries to open the files that the list named by FAKE_DRIVER_FILES has, and prints the error of each.
void open_files();

}  // namespace warpline::server
