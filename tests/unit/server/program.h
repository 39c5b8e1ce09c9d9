// A program as a fake client sends it: memory, library, kernels, a stream.
#pragma once

#include <string>
#include <vector>

#include "cuda/abi/cuda_types.h"
#include "protocol/schema/context.capnp.h"
#include "protocol/schema/copy.capnp.h"
#include "protocol/schema/event.capnp.h"
#include "protocol/schema/internal.capnp.h"
#include "protocol/schema/launch.capnp.h"
#include "protocol/schema/library.capnp.h"
#include "protocol/schema/memory.capnp.h"
#include "protocol/schema/stream.capnp.h"
#include "server/objects/handle_table.h"
#include "tests/unit/server/server_process.h"

namespace warpline::server::test {

using cuda::CallId;

constexpr uint64_t k_block = uint64_t{2} << 20;
inline const uint64_t k_library = make_token(HandleKind::library, 1, 0);
inline const uint64_t k_stream = make_token(HandleKind::stream, 1, 0);
inline const uint64_t k_event = make_token(HandleKind::event, 1, 0);

/// Calls of a session, short.
struct Program {
    FakeClient& client;

    void map(uint64_t address, uint64_t bytes, int device = 0) {
        client.send<wire::WlMap>(
            CallId::wlMap, [&](wire::WlMap::Builder b) { b.setAddress(address), b.setBytes(bytes), b.setDevice(device); });
    }
    uint64_t put(uint64_t address, BytesView bytes) {
        return client.send<wire::CuMemcpyHtoDV2>(
            CallId::cuMemcpyHtoD_v2, [&](auto b) { b.setDstDevice(address), b.setByteCount(bytes.size()); }, bytes);
    }
    FakeReply get(uint64_t address, uint64_t bytes, uint32_t thread = 1) {
        return client.call<wire::CuMemcpyDtoHV2>(
            CallId::cuMemcpyDtoH_v2, [&](auto b) { b.setSrcDevice(address), b.setByteCount(bytes); }, {}, thread);
    }
    FakeReply synchronize(uint32_t thread = 1) {
        return client.call<wire::CuCtxSynchronize>(
            CallId::cuCtxSynchronize, [](auto) {}, {}, thread);
    }
    void load(std::string_view image = ".version 8.0 // fake ptx", uint64_t library = k_library) {
        client.send<wire::WlImageLoad>(
            CallId::wlImageLoad, [&](auto b) { b.setImage(library), b.setKind(3), b.setLibrary(true); }, as_bytes(image));
    }
    uint64_t function(const char* name, uint32_t index, uint64_t library = k_library) {
        const uint64_t token = make_token(HandleKind::function, 1, index);
        client.send<wire::WlFunctionGet>(CallId::wlFunctionGet,
                                         [&](auto b) { b.setFunction(token), b.setImage(library), b.setName(name); });
        return token;
    }
    /// Address of the variable that some functions of the fake driver wait for.
    uint64_t variable() {
        const FakeReply reply = client.call<wire::CuLibraryGetGlobal>(CallId::cuLibraryGetGlobal,
                                                                      [&](auto b) { b.setLibrary(k_library), b.setName("x"); });
        uint64_t address = 0;
        read_values<wire::CuLibraryGetGlobalReply>(reply, [&](auto values) { address = values.getDptr(); });
        return address;
    }
    FakeReply synchronize_stream(uint64_t stream, uint32_t thread = 1) {
        return client.call<wire::CuStreamSynchronize>(
            CallId::cuStreamSynchronize, [&](auto b) { b.setHStream(stream); }, {}, thread);
    }
    uint64_t launch(uint64_t function, const std::vector<uint64_t>& params, uint64_t stream = 0, uint32_t block = 1) {
        const std::vector<uint32_t> sizes(params.size(), 8);
        return client.send<wire::CuLaunchKernel>(CallId::cuLaunchKernel, [&](auto b) {
            b.setF(function), b.setGridX(1), b.setGridY(1), b.setGridZ(1), b.setBlockX(block), b.setBlockY(1), b.setBlockZ(1);
            b.setHStream(stream);
            b.setParams({reinterpret_cast<const capnp::byte*>(params.data()), params.size() * 8});
            b.setSizes({reinterpret_cast<const capnp::byte*>(sizes.data()), sizes.size() * 4});
        });
    }
    void make_stream(uint64_t stream = k_stream, unsigned flags = 0) {
        client.send<wire::CuStreamCreate>(CallId::cuStreamCreate, [&](auto b) { b.setPhStream(stream), b.setFlags(flags); });
    }
};

}  // namespace warpline::server::test
