// Checks what an array is asked to be, and makes its memory.
#include "softgpu/driver/memory/array.h"

#include "cuda/abi/array_format.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

constexpr unsigned int k_known_flags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                                       CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT;

}  // namespace

std::shared_ptr<ArrayMemory> ArrayMemory::create(Device& device, uint64_t size_bytes) {
    uint64_t address = device.heap().allocate(size_bytes);
    if (address == 0) return nullptr;
    return std::shared_ptr<ArrayMemory>(new ArrayMemory(device, address, size_bytes));
}

ArrayMemory::~ArrayMemory() { m_device.heap().free(m_address, k_chunk_bytes); }

ArrayObject::ArrayObject(std::shared_ptr<Context> context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint64_t element_bytes,
                         std::shared_ptr<ArrayMemory> memory, uint64_t offset)
    : m_context(std::move(context)),
      m_descriptor(descriptor),
      m_element_bytes(element_bytes),
      m_memory(std::move(memory)),
      m_offset(offset) {}

CUresult ArrayObject::check(const Device& device, const CUDA_ARRAY3D_DESCRIPTOR& d, uint64_t* element_bytes) {
    if (d.Width == 0 || (d.Flags & ~k_known_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t bytes = cuda::abi::element_bytes(d.Format, d.NumChannels);
    const unsigned fixed = cuda::abi::channels_of(d.Format);
    const bool channels_fit =
        fixed != 0 ? d.NumChannels == fixed : d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4;
    if (bytes == 0 || !channels_fit) return CUDA_ERROR_INVALID_VALUE;
    bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0, cube = (d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
    if (layered && d.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!layered && d.Height == 0 && d.Depth != 0) return CUDA_ERROR_INVALID_VALUE;
    if (cube && (d.Width != d.Height || d.Depth == 0 || d.Depth % 6 != 0 || (!layered && d.Depth != 6))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0 && (d.Height == 0 || (!layered && d.Depth != 0))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    auto exceeds = [&device](size_t size, CUdevice_attribute limit) {
        return size > static_cast<size_t>(device.attribute(limit));
    };
    bool three = d.Depth != 0 && !layered && !cube, two = !three && d.Height != 0;
    if (three && (exceeds(d.Width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH) ||
                  exceeds(d.Height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT) ||
                  exceeds(d.Depth, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (two && (exceeds(d.Width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH) ||
                exceeds(d.Height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (layered && exceeds(d.Depth, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS)) return CUDA_ERROR_INVALID_VALUE;
    if (exceeds(d.Width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH)) return CUDA_ERROR_INVALID_VALUE;
    *element_bytes = bytes;
    return CUDA_SUCCESS;
}

uint64_t ArrayObject::bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& d, uint64_t element_bytes) {
    return d.Width * element_bytes * (d.Height != 0 ? d.Height : 1) * (d.Depth != 0 ? d.Depth : 1);
}

void free_arrays_of_context(Context& context) {
    for (const auto& mipmapped : process().mipmapped_arrays.all()) {
        if (&mipmapped->context() != &context) continue;
        for (uint64_t level : mipmapped->handles()) process().arrays.remove(level);
    }
    process().mipmapped_arrays.remove_if([&](const MipmappedArray& a) { return &a.context() == &context; });
    process().arrays.remove_if([&](const ArrayObject& a) { return &a.context() == &context; });
}

}  // namespace warpline::softgpu::driver
