// The message of a launch, made once for each function and patched for each launch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "client/call/call.h"
#include "client/code/launch_params.h"
#include "common/base/bytes.h"
#include "protocol/codec/batch.h"

namespace warpline::client {

/// A launch of one function as it travels, with places for what each launch says anew. Constant once made.
class LaunchImage {
public:
    /// Null: there is no memory for it, or it is too large to be worth it.
    static std::shared_ptr<const LaunchImage> make(uint64_t token, const Function& function);

    /// A launch's message. The parameters are copied from where the program has them.
    /// @param header  whose thread and context the launch has
    /// @errors        invalid value: a parameter is missing
    CUresult write(protocol::CallImage& out, const protocol::CallHeader& header, const Function& function,
                   const LaunchShape& shape, uint64_t to_stream, void** kernel_params) const;

private:
    enum Field : size_t { thread, context, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, k_fields };
    bool find_places();

    Bytes m_message;
    std::array<size_t, k_fields> m_places{};  // bytes from the start of the message
    size_t m_params = 0;
};

/// Queues a cuLaunchKernel as its generated encoder does, by the function's image. Nothing: it has none.
std::optional<CUresult> issue_by_image(Call& call, uint64_t token, Function& function, const LaunchShape& shape,
                                       uint64_t stream, void** kernel_params);

}  // namespace warpline::client
