// What the fuzzer of the PTX front end and its test share.
#pragma once

#include <cstddef>
#include <cstdint>

/// libFuzzer's entry for the PTX front end; also called by a test with mutated corpus, so that it runs with any compiler.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
