// Images that nvcc made for the tests.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "cuda/image/image.h"

namespace warpline::cuda::image {

/// The folder of images that nvcc made; empty where there is no nvcc.
std::string samples_folder();
Bytes read_sample(const std::string& name);
std::string read_text_sample(const std::string& name);

/// The kernels of kernels.cu and the sizes of their parameters, from the same header that nvcc compiled.
struct Expected {
    std::string kernel;
    std::vector<uint32_t> param_sizes;
};
const std::vector<Expected>& expected_kernels();

/// Fails the test unless kernels and globals are those of kernels.cu.
void check_info(const ImageInfo& info);

/// A fatbin made by hand.
struct TestEntry {
    uint16_t kind = 1;
    uint32_t arch = 75;
    uint64_t flags = 0x11;
    Bytes payload;
    uint32_t compressed_bytes = 0;
    uint64_t raw_bytes = 0;
    uint32_t header_bytes = 64;
};
Bytes make_fatbin(const std::vector<TestEntry>& entries);
Bytes to_bytes(std::string_view text);

}  // namespace warpline::cuda::image
