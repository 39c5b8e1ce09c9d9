// Resolves both sides of a copy to memory that is there.
#include "softgpu/driver/operations/copy.h"

#include "common/base/region.h"
#include "cuda/abi/copy_forms.h"
#include "softgpu/driver/memory/array.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// One side of a CUDA_MEMCPY3D.
struct Side {
    size_t x, y, z;
    CUmemorytype type;
    uint64_t host, device;
    CUarray array;
    size_t pitch, height;
};

Side source_of(const CUDA_MEMCPY3D& c) {
    return {c.srcXInBytes, c.srcY,     c.srcZ,     c.srcMemoryType, reinterpret_cast<uint64_t>(c.srcHost),
            c.srcDevice,   c.srcArray, c.srcPitch, c.srcHeight};
}
Side destination_of(const CUDA_MEMCPY3D& c) {
    return {c.dstXInBytes, c.dstY,     c.dstZ,     c.dstMemoryType, reinterpret_cast<uint64_t>(c.dstHost),
            c.dstDevice,   c.dstArray, c.dstPitch, c.dstHeight};
}

CUresult array_side(const Side& side, const CopyOperation& extent, CopySide& out) {
    out.array = process().arrays.find(side.array);
    if (out.array == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ArrayObject& array = *out.array;
    auto beyond = [](uint64_t start, uint64_t length, uint64_t limit) { return start > limit || length > limit - start; };
    if (beyond(side.x, extent.width_bytes, array.row_bytes()) || beyond(side.y, extent.height, array.rows()) ||
        beyond(side.z, extent.depth, array.slices())) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    out.row_pitch_bytes = array.row_pitch_bytes();
    out.slice_pitch_bytes = array.slice_pitch_bytes();
    out.base = array.base() + side.z * out.slice_pitch_bytes + side.y * out.row_pitch_bytes + side.x;
    return CUDA_SUCCESS;
}

CUresult linear_side(const Side& side, const CopyOperation& extent, Access access, CopySide& out) {
    bool host = side.type == CU_MEMORYTYPE_HOST;
    uint64_t base = host ? side.host : side.device;
    if (base == 0) return CUDA_ERROR_INVALID_VALUE;
    const Checked row_end = Checked(side.x) + extent.width_bytes, rows_end = Checked(side.y) + extent.height;
    const Checked row_pitch = side.pitch != 0 ? Checked(side.pitch) : row_end;
    const Checked rows = side.height != 0 ? Checked(side.height) : rows_end;
    const Checked slice_pitch = row_pitch * rows;
    if (!row_end.fits() || !rows_end.fits() || !slice_pitch.fits()) return CUDA_ERROR_INVALID_VALUE;
    if (extent.height > 1 && !row_end.at_most(row_pitch.value())) return CUDA_ERROR_INVALID_VALUE;
    if (extent.depth > 1 && !rows_end.at_most(rows.value())) return CUDA_ERROR_INVALID_VALUE;
    Region region;
    region.address = Checked(base) + Checked(side.z) * slice_pitch + Checked(side.y) * row_pitch + side.x;
    region.row_bytes = extent.width_bytes;
    region.rows = extent.height;
    region.pitch = row_pitch;
    region.layers = extent.depth;
    region.layer_pitch = slice_pitch;
    if (!region.fits()) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t first = region.address.value(), span = region.span().value();
    // Of unified memory the driver knows, all of it has to be known; the rest is pageable host memory.
    bool must_be_known = side.type == CU_MEMORYTYPE_DEVICE || (!host && !is_pageable(first));
    if (must_be_known) {
        CU_TRY(check_device_range(first, span, access));
        out.known_bytes = span;
    }
    out.row_pitch_bytes = row_pitch.value();
    out.slice_pitch_bytes = slice_pitch.value();
    out.base = reinterpret_cast<uint8_t*>(first);
    return CUDA_SUCCESS;
}

CUresult resolve(const Side& side, const CopyOperation& extent, Access access, CopySide& out) {
    switch (side.type) {
        case CU_MEMORYTYPE_ARRAY: return array_side(side, extent, out);
        case CU_MEMORYTYPE_HOST:
        case CU_MEMORYTYPE_DEVICE:
        case CU_MEMORYTYPE_UNIFIED: return linear_side(side, extent, access, out);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

void describe_linear(uint64_t to, Endpoint to_kind, uint64_t from, Endpoint from_kind, uint64_t bytes, CUDA_MEMCPY3D& out) {
    auto type_of = [](Endpoint kind) {
        if (kind == Endpoint::any) return CU_MEMORYTYPE_UNIFIED;
        return kind == Endpoint::host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    };
    out = CUDA_MEMCPY3D{};
    out.srcMemoryType = type_of(from_kind);
    out.srcHost = reinterpret_cast<const void*>(from_kind == Endpoint::host ? from : 0);
    out.srcDevice = from_kind == Endpoint::host ? 0 : from;
    out.dstMemoryType = type_of(to_kind);
    out.dstHost = reinterpret_cast<void*>(to_kind == Endpoint::host ? to : 0);
    out.dstDevice = to_kind == Endpoint::host ? 0 : to;
    out.srcPitch = out.dstPitch = out.WidthInBytes = bytes;
    out.srcHeight = out.dstHeight = out.Height = out.Depth = 1;
}

}  // namespace

CUresult linear_copy(uint64_t to, Endpoint to_kind, uint64_t from, Endpoint from_kind, uint64_t bytes,
                     CopyOperation& operation) {
    describe_linear(to, to_kind, from, from_kind, bytes, operation.described);
    operation.width_bytes = bytes;
    if (bytes == 0) return CUDA_SUCCESS;
    return described_copy(CUDA_MEMCPY3D(operation.described), operation);
}

CUresult described_copy(const CUDA_MEMCPY3D& described, CopyOperation& operation) {
    operation.described = described;
    operation.width_bytes = described.WidthInBytes;
    operation.height = described.Height;
    operation.depth = described.Depth;
    if (described.srcLOD != 0 || described.dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
    if (operation.width_bytes == 0 || operation.height == 0 || operation.depth == 0) {
        operation.width_bytes = 0;
        operation.height = operation.depth = 1;
        return CUDA_SUCCESS;
    }
    CU_TRY(resolve(source_of(described), operation, Access::read, operation.from));
    return resolve(destination_of(described), operation, Access::write, operation.to);
}

CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY2D& copy) {
    CUDA_MEMCPY3D out{};
    out.srcXInBytes = copy.srcXInBytes;
    out.srcY = copy.srcY;
    out.srcMemoryType = copy.srcMemoryType;
    out.srcHost = copy.srcHost;
    out.srcDevice = copy.srcDevice;
    out.srcArray = copy.srcArray;
    out.srcPitch = copy.srcPitch;
    out.dstXInBytes = copy.dstXInBytes;
    out.dstY = copy.dstY;
    out.dstMemoryType = copy.dstMemoryType;
    out.dstHost = copy.dstHost;
    out.dstDevice = copy.dstDevice;
    out.dstArray = copy.dstArray;
    out.dstPitch = copy.dstPitch;
    out.WidthInBytes = copy.WidthInBytes;
    out.Height = copy.Height;
    out.Depth = 1;
    return out;
}

CUDA_MEMCPY3D to_array(CUarray array, size_t offset, CUmemorytype type, uint64_t from, size_t bytes) {
    CUDA_MEMCPY3D out{};
    out.srcMemoryType = type;
    if (type == CU_MEMORYTYPE_HOST) {
        out.srcHost = reinterpret_cast<const void*>(from);
    } else {
        out.srcDevice = from;
    }
    out.srcPitch = bytes;
    out.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    out.dstArray = array;
    out.dstXInBytes = offset;
    out.WidthInBytes = bytes;
    out.Height = out.Depth = 1;
    return out;
}

CUDA_MEMCPY3D from_array(CUarray array, size_t offset, CUmemorytype type, uint64_t to, size_t bytes) {
    CUDA_MEMCPY3D out{};
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = array;
    out.srcXInBytes = offset;
    out.dstMemoryType = type;
    if (type == CU_MEMORYTYPE_HOST) {
        out.dstHost = reinterpret_cast<void*>(to);
    } else {
        out.dstDevice = to;
    }
    out.dstPitch = bytes;
    out.WidthInBytes = bytes;
    out.Height = out.Depth = 1;
    return out;
}

CUDA_MEMCPY3D array_to_array(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes) {
    CUDA_MEMCPY3D out{};
    out.srcMemoryType = out.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = from;
    out.srcXInBytes = from_offset;
    out.dstArray = to;
    out.dstXInBytes = to_offset;
    out.WidthInBytes = bytes;
    out.Height = out.Depth = 1;
    return out;
}

CUresult batch_copy(const CUDA_MEMCPY3D_BATCH_OP& described, CopyOperation& operation) {
    const auto element_of = [](CUarray handle, uint64_t& bytes) {
        const auto array = process().arrays.find(handle);
        if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        bytes = array->element_bytes();
        return bytes != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;  // it has planes
    };
    CUDA_MEMCPY3D copy;
    CU_TRY(cuda::abi::read_batch_copy(described, element_of, copy));
    return described_copy(copy, operation);
}

CUresult check_memset(const CUDA_MEMSET_NODE_PARAMS& params) {
    if (params.elementSize != 1 && params.elementSize != 2 && params.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
    if (params.width == 0 || params.height == 0) return CUDA_SUCCESS;
    const Checked row = Checked(params.width) * params.elementSize;
    if (params.dst % params.elementSize != 0) return CUDA_ERROR_INVALID_VALUE;
    if (params.height > 1 && (!row.at_most(params.pitch) || params.pitch % params.elementSize != 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Region region;
    region.address = params.dst;
    region.row_bytes = row;
    region.rows = params.height;
    region.pitch = params.pitch;
    if (!region.fits()) return CUDA_ERROR_INVALID_VALUE;
    return check_device_range(params.dst, region.span().value(), Access::write);
}

bool is_same_copy(const CopyOperation& a, const CopyOperation& b) {
    const auto is_same = [](const CopySide& one, const CopySide& other) {
        return one.base == other.base && one.row_pitch_bytes == other.row_pitch_bytes &&
               one.slice_pitch_bytes == other.slice_pitch_bytes && one.array == other.array;
    };
    return is_same(a.from, b.from) && is_same(a.to, b.to) && a.width_bytes == b.width_bytes && a.height == b.height &&
           a.depth == b.depth;
}

}  // namespace warpline::softgpu::driver
