// Makes a launch's message through Cap'n Proto once, finds where in it everything is, and fills copies of it.
#include "client/code/launch_image.h"

#include <cstring>
#include <type_traits>

#include "client/call/send.h"
#include "protocol/schema/launch.capnp.h"

namespace warpline::client {

namespace {

// What stands in each field while it is looked for: found nowhere else in a message.
constexpr uint32_t k_thread_mark = 0xB16B00B5;
constexpr uint64_t k_context_mark = 0xA5C3F00DB26C01B6, k_stream_mark = 0xA6C4F10EB36D02B7;
constexpr LaunchShape k_shape_mark{0xB46E03B8, 0xB56F04B9, 0xB67005BA, 0xB77106BB, 0xB87207BC, 0xB97308BD, 0xBA7409BE};

/// Where the only copy of a value is; nothing if there is none, or several.
template <typename T>
std::optional<size_t> only_place_of(const T& value, BytesView message) {
    static_assert(std::has_unique_object_representations_v<T>);
    std::optional<size_t> place;
    for (size_t at = 0; at + sizeof(T) <= message.size(); at += alignof(T)) {
        if (std::memcmp(message.data() + at, &value, sizeof(T)) != 0) continue;
        if (place) return std::nullopt;
        place = at;
    }
    return place;
}

/// The sizes that most parameters have are copied without a call.
void copy_piece(std::byte* to, const void* from, size_t bytes) {
    if (bytes == sizeof(uint64_t))
        std::memcpy(to, from, sizeof(uint64_t));
    else if (bytes == sizeof(uint32_t))
        std::memcpy(to, from, sizeof(uint32_t));
    else
        std::memcpy(to, from, bytes);
}

}  // namespace

std::shared_ptr<const LaunchImage> LaunchImage::make(uint64_t token, const Function& function) {
    using Wire = wire::CuLaunchKernel;
    const protocol::CallHeader header{static_cast<uint16_t>(cuda::CallId::cuLaunchKernel), false, k_thread_mark,
                                      k_context_mark};
    const std::byte* params = nullptr;
    const auto fill = [&](capnp::AnyPointer::Builder any) {
        auto args = any.initAs<Wire>();
        args.setF(token);
        args.setGridX(k_shape_mark.grid_x);
        args.setGridY(k_shape_mark.grid_y);
        args.setGridZ(k_shape_mark.grid_z);
        args.setBlockX(k_shape_mark.block_x);
        args.setBlockY(k_shape_mark.block_y);
        args.setBlockZ(k_shape_mark.block_z);
        args.setSharedMemBytes(k_shape_mark.shared_bytes);
        args.setHStream(k_stream_mark);
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
    const auto thread = only_place_of(k_thread_mark, m_message);
    const auto context = only_place_of(k_context_mark, m_message);
    const auto shape = only_place_of(k_shape_mark, m_message);
    const auto stream = only_place_of(k_stream_mark, m_message);
    if (!thread || !context || !shape || !stream) return false;
    m_places = {*thread, *context, *shape, *stream};
    return true;
}

CUresult LaunchImage::write(protocol::CallImage& out, const protocol::CallHeader& header, const Function& function,
                            const LaunchShape& shape, uint64_t to_stream, void** kernel_params) const {
    std::byte* const message = out.copy(m_message);
    const auto put = [&](size_t place, const auto& value) { std::memcpy(message + place, &value, sizeof value); };
    put(m_places.thread, header.thread);
    put(m_places.context, header.context);
    put(m_places.shape, shape);
    put(m_places.stream, to_stream);
    std::byte* const params = message + m_params;
    for (const auto& piece : function.pieces) {
        const void* const from = *kernel_params++;
        if (!from) return CUDA_ERROR_INVALID_VALUE;
        copy_piece(params + piece.offset_bytes, from, piece.size_bytes);
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
    return written == CUDA_SUCCESS ? send_launch(call, header, message) : written;
}

}  // namespace warpline::client
