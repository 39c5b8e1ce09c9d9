// What an image contains: kernels with their parameters, and variables.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::cuda::image {

/// A parameter of a kernel. Offsets depend on the architecture: send (ordinal, size, bytes), not the packed block.
struct Param {
    uint32_t ordinal = 0;
    uint32_t offset_bytes = 0;
    uint32_t size_bytes = 0;
    friend bool operator==(const Param&, const Param&) = default;
};

/// A kernel as the image describes it. 0 means "the image does not say".
struct Kernel {
    std::string name;
    std::vector<Param> params;                             ///< by ordinal
    uint32_t param_bytes = 0;                              ///< of all parameters together, padding included
    uint32_t static_shared_bytes = 0;                      ///< cubin: exact; PTX: sum of the .shared variables of the body
    uint32_t local_bytes = 0;                              ///< per thread (cubin)
    uint32_t constant_bytes = 0;                           ///< user's constant memory (cubin and PTX: of the module)
    uint32_t registers = 0;                                ///< per thread (cubin)
    std::array<uint32_t, 3> max_threads = {0, 0, 0};       ///< .maxntid, __launch_bounds__
    std::array<uint32_t, 3> required_threads = {0, 0, 0};  ///< .reqntid
    std::array<uint32_t, 3> cluster = {0, 0, 0};           ///< .reqnctapercluster, __cluster_dims__
    uint32_t min_blocks = 0;                               ///< .minnctapersm
    uint32_t code_bytes = 0;                               ///< machine code (cubin)

    /// Product of max_threads or required_threads, 0 if the image sets no bound.
    uint32_t max_threads_per_block() const;
};

enum class Space : uint8_t { global, constant };

/// A variable that cuModuleGetGlobal finds.
struct Global {
    std::string name;
    uint64_t size_bytes = 0;
    uint32_t alignment_bytes = 0;
    Space space = Space::global;
    bool managed = false;   ///< __managed__
    bool external = false;  ///< declared here, defined in another module
};

struct ImageInfo {
    uint32_t arch = 0;            ///< 75, 90, 120
    uint32_t ptx_version = 0;     ///< 10 × major + minor of .version (PTX)
    bool relocatable = false;     ///< an object of -rdc=true, before linking
    std::vector<Kernel> kernels;  ///< sorted by name
    std::vector<Global> globals;  ///< sorted by name
    bool uses_printf = false;     ///< calls vprintf

    /// nullptr if there is none of that name.
    const Kernel* find_kernel(std::string_view name) const;
    const Global* find_global(std::string_view name) const;
};

}  // namespace warpline::cuda::image
