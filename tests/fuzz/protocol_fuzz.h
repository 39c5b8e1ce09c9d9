// What a fuzz target of the protocol defines.
#pragma once

#include <vector>

#include "common/base/bytes.h"

// What a fuzz target defines.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Well-formed inputs, to start from.
std::vector<warpline::Bytes> fuzz_seeds();
