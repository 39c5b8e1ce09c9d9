// Checks that the device memory a call names is the session's.
#include "server/session/regions.h"

#include "common/log/log.h"
#include "cuda/abi/array_format.h"
#include "cuda/abi/stream_values.h"
#include "server/session/session.h"

namespace warpline::server {

namespace {

const char* name_of(Access access) {
    if (access == Access::both) return "reads and writes";
    return access == Access::read ? "reads" : "writes";
}

/// The two structures of a copy differ in what is not looked at here.
template <typename Copy>
CUresult check_copy(ServerCall& call, Copy copy) {
    if (!settle(copy)) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t height = std::max<uint64_t>(copy.Height, 1), depth = std::max<uint64_t>(copy.Depth, 1);
    for (const auto& [side, access] :
         {std::pair(source_side(copy), Access::read), std::pair(target_side(copy), Access::write)}) {
        if (side.type == CU_MEMORYTYPE_HOST || side.type == CU_MEMORYTYPE_ARRAY) continue;
        // The client says which memory it means; nothing is left to be told from an address.
        if (side.type != CU_MEMORYTYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        const CUresult result = check_region(call, region_of(side, copy.WidthInBytes, height, depth), access);
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult check_region(ServerCall& call, const Region& region, Access access) {
    if (region.is_empty()) return CUDA_SUCCESS;
    if (!region.fits()) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t address = region.address.value(), bytes = region.span().value();
    const DeviceMemory& memory = call.session().memory();
    if (memory.contains(address, bytes)) [[likely]]
        return CUDA_SUCCESS;
    WL_LOG(debug, "session", "{} {} {} bytes at {:#x}, which are not all the session's", cuda::call_name(call.id()),
           name_of(access), bytes, address);
    return memory.refusal(address);
}

CUresult check_mappings(ServerCall& call, Checked address, Checked bytes) {
    const bool fits = address.fits() && bytes.fits();
    const DeviceMemory& memory = call.session().memory();
    // Variables of modules and what graphs allocate, which are not its to unmap either, lie outside of the window.
    if (fits && !memory.in_window(address.value(), bytes.value())) return CUDA_ERROR_INVALID_VALUE;
    return fits && memory.is_clients_own(address.value(), bytes.value()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_window(ServerCall& call, Checked address, Checked bytes) {
    const bool fits = address.fits() && bytes.fits();
    const DeviceMemory& memory = call.session().memory();
    return fits && memory.in_window(address.value(), bytes.value()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_regions(ServerCall& call, const CUDA_MEMCPY3D& copy, Access) { return check_copy(call, copy); }
CUresult check_regions(ServerCall& call, const CUDA_MEMCPY3D_PEER& copy, Access) { return check_copy(call, copy); }

CUresult check_regions(ServerCall& call, const CUDA_MEMSET_NODE_PARAMS& fill, Access access) {
    Region region;
    region.address = fill.dst;
    region.row_bytes = Checked(fill.width) * fill.elementSize;
    region.rows = fill.height;
    region.pitch = fill.pitch;
    return check_region(call, region, access);
}

CUresult check_regions(ServerCall& call, const CUstreamBatchMemOpParams& operation, Access) {
    const auto check = [&](CUdeviceptr address, uint64_t bytes, Access access) {
        Region region;
        region.address = address;
        region.row_bytes = bytes;
        return check_region(call, region, access);
    };
    if (cuda::abi::is_reduction(operation)) {
        const cuda::abi::AtomicReduction reduction = cuda::abi::reduction_of(operation);
        return check(reduction.address, reduction.bytes(), Access::write);
    }
    switch (operation.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32: return check(operation.waitValue.address, sizeof(cuuint32_t), Access::read);
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: return check(operation.waitValue.address, sizeof(cuuint64_t), Access::read);
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: return check(operation.writeValue.address, sizeof(cuuint32_t), Access::write);
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: return check(operation.writeValue.address, sizeof(cuuint64_t), Access::write);
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

Checked texture_row_bytes(CUarray_format format, unsigned channels, size_t width) {
    const uint64_t bytes = cuda::abi::element_bytes(format, channels);
    return bytes != 0 ? Checked(width) * bytes : Checked(UINT64_MAX) + 1;
}

CUresult check_regions(ServerCall& call, const CUDA_RESOURCE_DESC& resource, Access access) {
    Region region;
    if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
        // How far it reaches is for the driver to judge, which takes textures that are longer than the memory. The call reads
        // nothing, and kernels can read by any address whatever is said here.
        region.address = resource.res.linear.devPtr;
        region.row_bytes = 1;
    } else if (resource.resType == CU_RESOURCE_TYPE_PITCH2D) {
        const auto& pitched = resource.res.pitch2D;
        region.address = pitched.devPtr;
        region.row_bytes = texture_row_bytes(pitched.format, pitched.numChannels, pitched.width);
        region.rows = pitched.height;
        region.pitch = pitched.pitchInBytes;
    } else {
        return CUDA_SUCCESS;  // arrays, which are named by handles
    }
    return check_region(call, region, access);
}

CUresult check_attribute(ServerCall& call, CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
    if (id != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) return CUDA_SUCCESS;
    Region region;
    region.address = reinterpret_cast<uint64_t>(value.accessPolicyWindow.base_ptr);
    region.row_bytes = value.accessPolicyWindow.num_bytes;
    return check_region(call, region, Access::read);
}

bool settle_side(const CopySide& side, uint64_t width_bytes, uint64_t height, uint64_t depth) {
    if (side.type != CU_MEMORYTYPE_DEVICE || width_bytes == 0) return true;
    const bool has_layers = side.z > 0 || depth > 1;
    const bool has_rows = has_layers || side.y > 0 || height > 1;
    const Checked row = Checked(side.x) + width_bytes;
    const Checked layer = Checked(side.y) + height;
    if (!row.fits() || !layer.fits()) return false;
    if (has_rows && side.pitch == 0) side.pitch = row.value();
    if (has_layers && side.height == 0) side.height = layer.value();
    return (!has_rows || row.at_most(side.pitch)) && (!has_layers || layer.at_most(side.height));
}

Region region_of(const CopySide& side, uint64_t width_bytes, uint64_t height, uint64_t depth) {
    const Checked pitch = side.pitch, layer_pitch = Checked(side.pitch) * side.height;
    Region region;
    region.address = Checked(side.address) + Checked(side.z) * layer_pitch + Checked(side.y) * pitch + side.x;
    region.row_bytes = width_bytes;
    region.rows = height;
    region.pitch = pitch;
    region.layers = depth;
    region.layer_pitch = layer_pitch;
    return region;
}

}  // namespace warpline::server
