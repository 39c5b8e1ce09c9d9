#pragma once

// Which memory of a device a call touches, and whether that is the session's. Generated code asks here, once for each range
// that the description of a call names (`ranges`, docs/api-description.md), before a hook or the driver hears of the call.

#include <algorithm>
#include <cstring>

#include "common/base/bytes.h"
#include "common/base/region.h"
#include "server/session/call.h"

namespace warpline::server {

enum class Access : uint8_t { read, write, both };

/// @errors  CUDA_ERROR_INVALID_VALUE: any byte of it is not the session's, or it wraps around; CUDA_ERROR_OUT_OF_MEMORY:
///          it was promised to the client and could not be mapped
CUresult check_region(ServerCall& call, const Region& region, Access access);
/// The same for mappings of the client's own (cuMemMap): the whole of one or more of them.
CUresult check_mappings(ServerCall& call, Checked address, Checked bytes);
/// The same for a range of the session's window, mapped or not.
CUresult check_window(ServerCall& call, Checked address, Checked bytes);

/// The regions that structures name. Structures without an overload here cannot be named in `ranges`.
CUresult check_regions(ServerCall& call, const CUDA_MEMCPY3D& copy, Access access);
CUresult check_regions(ServerCall& call, const CUDA_MEMCPY3D_PEER& copy, Access access);
CUresult check_regions(ServerCall& call, const CUDA_MEMSET_NODE_PARAMS& fill, Access access);
CUresult check_regions(ServerCall& call, const CUstreamBatchMemOpParams& operation, Access access);
CUresult check_regions(ServerCall& call, const CUDA_RESOURCE_DESC& resource, Access access);

/// Of a launch, a stream or a kernel node.
CUresult check_attribute(ServerCall& call, CUlaunchAttributeID id, const CUlaunchAttributeValue& value);

/// Structures as they travelled, one or several. @errors as above, and CUDA_ERROR_INVALID_VALUE for bytes that are none
template <typename T>
CUresult check_regions_in(ServerCall& call, BytesView bytes, Access access) {
    if (bytes.size() % sizeof(T) != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t offset = 0; offset < bytes.size(); offset += sizeof(T)) {
        T value;
        std::memcpy(&value, bytes.data() + offset, sizeof value);
        if (const CUresult result = check_regions(call, value, access); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

/// The bytes of a row of a linear texture. Nothing is known of formats that CUDA does not have: too large.
Checked texture_row_bytes(CUarray_format format, unsigned channels, size_t width);

/// One side of a copy, whichever of CUDA's structures says it.
struct CopySide {
    CUmemorytype type{};
    CUdeviceptr address = 0;
    uint64_t x = 0, y = 0, z = 0;
    size_t& pitch;   ///< bytes of a row; 0: as many as are copied
    size_t& height;  ///< rows of a layer; 0: as many as are copied
};
template <typename Copy>
CopySide source_side(Copy& copy) {
    return {copy.srcMemoryType, copy.srcDevice, copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcPitch, copy.srcHeight};
}
template <typename Copy>
CopySide target_side(Copy& copy) {
    return {copy.dstMemoryType, copy.dstDevice, copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight};
}

/// Puts the numbers that zeros stand for into a side in linear memory, so that the driver computes with those that were
/// checked. False if rows or layers would overlap.
bool settle_side(const CopySide& side, uint64_t width_bytes, uint64_t height, uint64_t depth);
/// The memory that a side touches; the side is settled.
Region region_of(const CopySide& side, uint64_t width_bytes, uint64_t height, uint64_t depth);

/// Both sides. A height or depth of 0 counts as 1: drivers differ in what they make of it.
template <typename Copy>
bool settle(Copy& copy) {
    const uint64_t height = std::max<uint64_t>(copy.Height, 1), depth = std::max<uint64_t>(copy.Depth, 1);
    return settle_side(source_side(copy), copy.WidthInBytes, height, depth) &&
           settle_side(target_side(copy), copy.WidthInBytes, height, depth);
}

}  // namespace warpline::server
