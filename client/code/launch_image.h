// The message of a launch, made once for each function and patched for each launch.
#pragma once

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
    bool find_places();

    // Bytes from the start of the message. What is the same in both, the shape, is one piece.
    struct Places {
        size_t thread = 0, context = 0, shape = 0, stream = 0;
    };
    Bytes m_message;
    Places m_places;
    size_t m_params = 0;
};

/// Queues a cuLaunchKernel as its generated encoder does, by the function's image. Nothing: it has none.
std::optional<CUresult> issue_by_image(Call& call, uint64_t token, Function& function, const LaunchShape& shape,
                                       uint64_t stream, void** kernel_params);

}  // namespace warpline::client
