// Arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

class Context;
class Device;

/// Memory of an array or of all levels of a mipmapped one.
class ArrayMemory {
public:
    /// Null if the device is full.
    static std::shared_ptr<ArrayMemory> create(Device& device, uint64_t size_bytes);
    ~ArrayMemory();
    uint8_t* base() const { return reinterpret_cast<uint8_t*>(m_address); }
    uint64_t size_bytes() const { return m_size_bytes; }

private:
    ArrayMemory(Device& device, uint64_t address, uint64_t size_bytes)
        : m_device(device), m_address(address), m_size_bytes(size_bytes) {}
    Device& m_device;
    const uint64_t m_address;
    const uint64_t m_size_bytes;
};

/// An array: elements in rows, rows in slices (depth, layers, faces of a cube), without padding that anyone could see. One
/// level of a mipmapped array is an array, too, and so is one plane of a format that has several.
class ArrayObject {
public:
    ArrayObject(std::shared_ptr<Context> context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint64_t element_bytes,
                std::shared_ptr<ArrayMemory> memory, uint64_t offset);

    /// Errors: invalid value (sizes, formats, flags).
    static CUresult check(const Device& device, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint64_t* element_bytes);
    /// What an array of this description needs.
    static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint64_t element_bytes);

    Context& context() const { return *m_context; }
    const CUDA_ARRAY3D_DESCRIPTOR& descriptor() const { return m_descriptor; }
    uint64_t element_bytes() const { return m_element_bytes; }
    uint8_t* base() const { return m_memory->base() + m_offset; }
    uint64_t row_bytes() const { return m_descriptor.Width * m_element_bytes; }
    uint64_t rows() const { return m_descriptor.Height != 0 ? m_descriptor.Height : 1; }
    uint64_t slices() const { return m_descriptor.Depth != 0 ? m_descriptor.Depth : 1; }
    uint64_t row_pitch_bytes() const { return row_bytes(); }
    uint64_t slice_pitch_bytes() const { return row_bytes() * rows(); }
    uint64_t size_bytes() const { return slice_pitch_bytes() * slices(); }
    const std::shared_ptr<ArrayMemory>& memory() const { return m_memory; }
    /// A level is destroyed with its mipmapped array only, a plane with the array whose format has planes.
    void set_part() { m_is_part = true; }
    bool is_part() const { return m_is_part; }
    /// Handles of the planes, as cuArrayGetPlane gives them out. Such an array has no elements of its own.
    void set_planes(std::vector<uint64_t> handles) { m_planes = std::move(handles); }
    const std::vector<uint64_t>& planes() const { return m_planes; }

private:
    const std::shared_ptr<Context> m_context;  // shared: its end is asked of the handle after the context was destroyed
    const CUDA_ARRAY3D_DESCRIPTOR m_descriptor;
    const uint64_t m_element_bytes;
    const std::shared_ptr<ArrayMemory> m_memory;  // shared by the levels of a mipmapped array and by textures in use
    const uint64_t m_offset;
    bool m_is_part = false;
    std::vector<uint64_t> m_planes;
};

class MipmappedArray {
public:
    MipmappedArray(std::shared_ptr<Context> context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor,
                   std::vector<std::shared_ptr<ArrayObject>> levels, std::vector<uint64_t> handles)
        : m_context(std::move(context)), m_descriptor(descriptor), m_levels(std::move(levels)), m_handles(std::move(handles)) {}

    Context& context() const { return *m_context; }
    const CUDA_ARRAY3D_DESCRIPTOR& descriptor() const { return m_descriptor; }
    const std::vector<std::shared_ptr<ArrayObject>>& levels() const { return m_levels; }
    /// Handles of the levels, as cuMipmappedArrayGetLevel gives them out.
    const std::vector<uint64_t>& handles() const { return m_handles; }

private:
    const std::shared_ptr<Context> m_context;
    const CUDA_ARRAY3D_DESCRIPTOR m_descriptor;
    const std::vector<std::shared_ptr<ArrayObject>> m_levels;
    const std::vector<uint64_t> m_handles;
};

/// Destroys the arrays that calls of a context made.
void free_arrays_of_context(Context& context);

}  // namespace warpline::softgpu::driver
