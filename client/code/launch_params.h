// What launches and kernel nodes of graphs have in common: shape, parameters, attributes.
#pragma once

#include "client/code/images.h"

namespace warpline::client {

/// A kernel's grid as all forms of launches and kernel nodes have it.
struct LaunchShape {
    unsigned grid_x = 0, grid_y = 0, grid_z = 0;
    unsigned block_x = 0, block_y = 0, block_z = 0;
    unsigned shared_bytes = 0;
};

/// What the launch itself reports in CUDA: grid, block and shared memory against the device's limits and the function's.
///
/// @errors  invalid value, launch out of resources
CUresult check_shape(const Device& device, const Function& function, const LaunchShape& shape);

/// The parameters of a launch in the form in which they travel: back to back, with the size of each, or the buffer of the
/// `extra` form.
class LaunchParams {
public:
    /// @errors  invalid value
    CUresult read(const Function& function, void** kernel_params, void** extra);
    BytesView params() const { return m_params; }
    BytesView sizes() const { return m_sizes; }

private:
    static constexpr size_t k_inline_bytes = 512;
    BytesView m_params;
    BytesView m_sizes;
    std::byte m_inline[k_inline_bytes];
    Bytes m_heap;
};

/// CUDA_SUCCESS if all of a launch's attributes can travel; else one log line names the first that cannot.
CUresult check_attributes(const Call& call, const CUlaunchAttribute* attributes, unsigned count);
/// The same for one attribute of a stream or kernel node.
CUresult check_attribute(const Call& call, CUlaunchAttributeID id, const CUlaunchAttributeValue& value);

}  // namespace warpline::client
