// Linking, with logs that the driver may write to until it ends.
#include <algorithm>

#include "cuda/abi/link_options.h"
#include "server/gen/link_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/images.h"

namespace warpline::server {

namespace {

bool begins_with(BytesView bytes, std::string_view magic) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// True if bytes may be what a linker is told that they are: it must not take them for something else by their first bytes.
bool is_input(BytesView bytes, CUjitInputType type) {
    switch (type) {
        case CU_JIT_INPUT_PTX: return is_sound(bytes, ImageKind::ptx);
        case CU_JIT_INPUT_CUBIN: return is_sound(bytes, ImageKind::cubin);
        case CU_JIT_INPUT_FATBINARY: return is_sound(bytes, ImageKind::fatbin);
        case CU_JIT_INPUT_OBJECT:
            return begins_with(bytes,
                               "\x7f"
                               "ELF") ||
                   is_sound(bytes, ImageKind::fatbin);
        case CU_JIT_INPUT_LIBRARY: return begins_with(bytes, "!<arch>\n");
        case CU_JIT_INPUT_NVVM: return begins_with(bytes, "BC\xc0\xde") || begins_with(bytes, "\xed\x43\x4e\x7f");
        default: return false;
    }
}

}  // namespace

// The driver writes its log into buffers that are named when the link begins: they live in the session until the link is gone.

CUresult hook_server_cuLinkCreate_v2(ServerCall& call, const CuLinkCreateV2Args& args) {
    const auto create = WL_DRIVER(call, cuLinkCreate_v2);
    if (!call.may_bind(HandleKind::link, args.stateOut)) return CUDA_ERROR_INVALID_HANDLE;
    const HandleTable& handles = call.session().handles();
    if (call.session().links().full([&](uint64_t token) { return handles.find(HandleKind::link, token).has_value(); }))
        return CUDA_ERROR_OUT_OF_MEMORY;
    auto log = std::make_unique<JitLog>();
    if (!log->prepare(args.options, args.values)) return CUDA_ERROR_INVALID_VALUE;
    CUlinkState state = nullptr;
    WL_CUDA(create(log->count(), log->options(), log->values(), &state));
    call.bind(HandleKind::link, args.stateOut, state, call.context());
    call.session().links().add(args.stateOut, std::move(log));
    return CUDA_SUCCESS;
}

CUresult hook_server_cuLinkAddData_v2(ServerCall& call, const CuLinkAddDataV2Args& args, CuLinkAddDataV2Values& values) {
    const auto add = WL_DRIVER(call, cuLinkAddData_v2);
    const auto state = WL_FIND(call, CUlinkState, link, args.state);
    const auto payload = call.whole_payload();
    if (!payload.ok()) return result_of(payload.error());
    // What a driver says of the first four; it has no name for the others.
    if (args.type >= CU_JIT_NUM_INPUT_TYPES || payload->empty()) return CUDA_ERROR_INVALID_VALUE;
    if (!is_input(*payload, static_cast<CUjitInputType>(args.type))) return CUDA_ERROR_INVALID_IMAGE;
    // PTX is text and ends with a zero, which need not have travelled.
    std::vector<uint64_t> data(payload->size() / sizeof(uint64_t) + 1);
    std::memcpy(data.data(), payload->data(), payload->size());
    const bool text = static_cast<CUjitInputType>(args.type) == CU_JIT_INPUT_PTX;
    const bool ends = payload->empty() || payload->back() == std::byte{0};
    // They overrule those of the link, for this input.
    JitLog own;
    const auto is_forbidden = [](uint64_t option) { return cuda::abi::is_of_whole_link(static_cast<CUjit_option>(option)); };
    if (std::ranges::any_of(args.options, is_forbidden) || !own.prepare(args.options, args.values))
        return CUDA_ERROR_INVALID_VALUE;
    const std::string name(args.name);
    const CUresult result =
        add(state, static_cast<CUjitInputType>(args.type), data.data(), payload->size() + (text && !ends ? 1 : 0),
            name.empty() ? nullptr : name.c_str(), own.count(), own.options(), own.values());
    call.session().links().answer(args.state, values);
    return result;
}

CUresult hook_server_cuLinkComplete(ServerCall& call, const CuLinkCompleteArgs& args, CuLinkCompleteValues& values) {
    const auto complete = WL_DRIVER(call, cuLinkComplete);
    const auto state = WL_FIND(call, CUlinkState, link, args.state);
    call.release_order();
    void* cubin = nullptr;
    size_t bytes = 0;
    const CUresult result = complete(state, &cubin, &bytes);
    call.session().links().answer(args.state, values);
    if (result != CUDA_SUCCESS) return result;
    if (!call.reserve_reply_payload(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memcpy(call.reply_payload().data(), cubin, bytes);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuLinkDestroy(ServerCall& call, const CuLinkDestroyArgs& args) {
    const auto destroy = WL_DRIVER(call, cuLinkDestroy);
    const auto state = WL_FIND(call, CUlinkState, link, args.state);
    call.unbind(HandleKind::link, args.state);
    const CUresult result = destroy(state);
    call.session().links().remove(args.state);
    return result;
}

}  // namespace warpline::server
