// How often the code under test allocates.
#pragma once

#include <cstddef>

namespace warpline::tests {

/// Bytes that operator new has given out in this process so far. @thread any
size_t allocated_bytes();

}  // namespace warpline::tests
