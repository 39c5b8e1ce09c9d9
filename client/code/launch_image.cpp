// Makes a launch's message through Cap'n Proto once, finds where in it everything is, and fills copies of it.
#include "client/code/launch_image.h"

#include <cstring>

#include "client/call/send.h"
#include "protocol/schema/launch.capnp.h"

namespace warpline::client {

namespace {

/// What stands in each field while it is looked for: found nowhere else in a message.
constexpr uint64_t mark(size_t field) { return 0xA5C3F00DB16B00B5 + field * 0x0101010101010101; }
constexpr uint32_t half_mark(size_t field) { return static_cast<uint32_t>(mark(field)); }

/// Where the only copy of a value is; nothing if there is none, or several.
template <typename T>
std::optional<size_t> only_place_of(T value, BytesView message) {
    std::optional<size_t> place;
    for (size_t at = 0; at + sizeof(T) <= message.size(); at += sizeof(T)) {
        if (std::memcmp(message.data() + at, &value, sizeof(T)) != 0) continue;
        if (place) return std::nullopt;
        place = at;
    }
    return place;
}

}  // namespace

std::shared_ptr<const LaunchImage> LaunchImage::make(uint64_t token, const Function& function) {
    using Wire = wire::CuLaunchKernel;
    const protocol::CallHeader header{static_cast<uint16_t>(cuda::CallId::cuLaunchKernel), false, half_mark(thread),
                                      mark(context)};
    const std::byte* params = nullptr;
    const auto fill = [&](capnp::AnyPointer::Builder any) {
        auto args = any.initAs<Wire>();
        args.setF(token);
        args.setGridX(half_mark(grid_x));
        args.setGridY(half_mark(grid_y));
        args.setGridZ(half_mark(grid_z));
        args.setBlockX(half_mark(block_x));
        args.setBlockY(half_mark(block_y));
        args.setBlockZ(half_mark(block_z));
        args.setSharedMemBytes(half_mark(shared_bytes));
        args.setHStream(mark(stream));
        params = reinterpret_cast<const std::byte*>(args.initParams(function.block_bytes).begin());
        args.setSizes(data_of(function.sizes));
    };
    const unsigned words = capnp::_::structSize<Wire>().total() + protocol::words_of_bytes(function.block_bytes) +
                           protocol::words_of_bytes(function.sizes.size());
    protocol::CallImage built;
    if (!built.build(header, words, 0, fill).ok() || built.message().size() > protocol::CallImage::k_inline_bytes)
        return nullptr;
    auto image = std::make_shared<LaunchImage>();
    image->m_message.assign(built.message().begin(), built.message().end());
    image->m_params = static_cast<size_t>(params - built.message().data());
    return image->find_places() ? image : nullptr;
}

bool LaunchImage::find_places() {
    for (size_t field = 0; field < k_fields; ++field) {
        const bool is_whole = field == context || field == stream;
        const auto place = is_whole ? only_place_of(mark(field), m_message) : only_place_of(half_mark(field), m_message);
        if (!place) return false;
        m_places[field] = *place;
    }
    return true;
}

CUresult LaunchImage::write(protocol::CallImage& out, const protocol::CallHeader& header, const Function& function,
                            const LaunchShape& shape, uint64_t to_stream, void** kernel_params) const {
    std::byte* const message = out.copy(m_message);
    const auto put = [&](Field field, auto value) { std::memcpy(message + m_places[field], &value, sizeof value); };
    put(thread, header.thread);
    put(context, header.context);
    put(grid_x, shape.grid_x);
    put(grid_y, shape.grid_y);
    put(grid_z, shape.grid_z);
    put(block_x, shape.block_x);
    put(block_y, shape.block_y);
    put(block_z, shape.block_z);
    put(shared_bytes, shape.shared_bytes);
    put(stream, to_stream);
    for (size_t i = 0; i < function.pieces.size(); ++i) {
        if (!kernel_params[i]) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(message + m_params + function.pieces[i].offset_bytes, kernel_params[i], function.pieces[i].size_bytes);
    }
    return CUDA_SUCCESS;
}

std::optional<CUresult> issue_by_image(Call& call, uint64_t token, Function& function, const LaunchShape& shape,
                                       uint64_t stream, void** kernel_params) {
    const LaunchImage* image = function.launch_image.load(std::memory_order_acquire);
    if (!image) {
        MutexLock lock(function.mutex);
        if (!function.image_is_made) function.image = LaunchImage::make(token, function);
        function.image_is_made = true;
        image = function.image.get();
        function.launch_image.store(image, std::memory_order_release);
        if (!image) return std::nullopt;
    }
    if (!function.pieces.empty() && !kernel_params) return CUDA_ERROR_INVALID_VALUE;
    call.id = cuda::CallId::cuLaunchKernel;
    const protocol::CallHeader header = header_of(call, false);
    protocol::CallImage message;
    const CUresult written = image->write(message, header, function, shape, stream, kernel_params);
    return written == CUDA_SUCCESS ? send_image(call, header, message) : written;
}

}  // namespace warpline::client
