// Layout of the containers, shared by the reader of pointers and the reader of bytes.
#pragma once

#include <string_view>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::cuda::image {

inline Error malformed(const char* what) { return {Code::malformed, what}; }

inline constexpr uint32_t k_wrapper_magic = 0x466243B1;
inline constexpr uint32_t k_fatbin_magic = 0xBA55ED50;
inline constexpr uint32_t k_elf_magic = 0x464C457F;

/// What libcudart passes: a segment of the program that points at its fatbin.
struct Wrapper {
    uint32_t magic;
    uint32_t version;
    const void* data;
    const void* filename_or_fatbins;
};
static_assert(sizeof(Wrapper) == 24);

struct FatbinHeader {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t size_bytes;  // after the header
};
static_assert(sizeof(FatbinHeader) == 16);

struct EntryHeader {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t payload_bytes;  // as stored, padded to 8
    uint32_t compressed_bytes;
    uint32_t options_offset;
    uint16_t minor;
    uint16_t major;
    uint32_t arch;
    uint32_t name_offset;
    uint32_t name_bytes;
    uint64_t flags;
    uint64_t zero;
    uint64_t raw_bytes;  // when compressed
};
static_assert(sizeof(EntryHeader) == 64);

/// Kinds of entries. The last is not NVIDIA's: what the software GPU has linked at run time, where NVIDIA's driver makes a
/// cubin, stays PTX, with an entry for each text.
inline constexpr uint16_t k_kind_ptx = 1, k_kind_cubin = 2, k_kind_linked_ptx = 0x4c57;

inline constexpr uint64_t k_flag_lz4 = 0x2000;
inline constexpr uint64_t k_flag_zstd = 0x8000;
inline constexpr uint64_t k_flag_arch_specific = 0x100000;
inline constexpr uint64_t k_flag_family_specific = 0x200000;

/// Size of an ELF file from its headers, reading no more than `limit_bytes` from `elf`.
///
/// @errors  malformed, quota (the headers say more than the limit)
Result<uint64_t> elf_size(const std::byte* elf, uint64_t limit_bytes);

/// True if text that starts like this may be PTX: white space, a comment or a directive.
bool looks_like_ptx(BytesView start);

/// What a code says about the devices that it runs on.
struct Target {
    uint32_t arch = 0;  ///< 10 × major + minor; 0: it does not say
    bool arch_specific = false;
    bool family_specific = false;
};
Target cubin_target(BytesView elf);
/// From the .target directive, which stands among the first words of a module.
Target ptx_target(std::string_view ptx);
/// From "sm_90a" or "compute_75".
Target target_of_name(std::string_view name);

}  // namespace warpline::cuda::image
