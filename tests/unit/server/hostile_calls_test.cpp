// A client that says what it likes, call by call, to a server with the software GPU: nothing of it may reach memory that is not
// the session's, and the worker must live on.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "cuda/abi/newer_values.h"
#include "protocol/schema/array.capnp.h"
#include "protocol/schema/capture.capnp.h"
#include "protocol/schema/graph.capnp.h"
#include "protocol/schema/graph_exec.capnp.h"
#include "protocol/schema/graph_node.capnp.h"
#include "protocol/schema/graph_node_params.capnp.h"
#include "protocol/schema/link.capnp.h"
#include "protocol/schema/memset.capnp.h"
#include "protocol/schema/texture.capnp.h"
#include "tests/unit/server/call_case.h"
#include "tests/unit/server/program.h"
#include "tests/unit/server/range_case.h"

namespace warpline::server::test {

namespace {

constexpr const char* k_ptx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 address, .param .u32 value)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [address];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd2, %rd1;
    st.global.u32 [%rd2], %r1;
    ret;
}
)";

template <typename T>
capnp::Data::Reader bytes_as_data(const T& value) {
    return {reinterpret_cast<const capnp::byte*>(&value), sizeof value};
}

class HostileCallsTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(m_server.ready());
        m_client = m_server.client();
        ASSERT_NE(m_client, nullptr);
        m_window = m_client->window;
        program().map(m_window, k_bytes);
        program().put(m_window, as_bytes(m_text));
        ASSERT_EQ(program().synchronize().result, 0);
        ASSERT_TRUE(m_client->async_errors().empty());
    }
    void TearDown() override {
        // The worker lives, and nobody wrote where nothing was asked for.
        EXPECT_EQ((program().get(m_window, m_text.size()).payload), m_text);
    }
    Program program() { return {*m_client}; }
    CUresult outcome(const FakeReply& reply) { return static_cast<CUresult>(reply.result); }

    static constexpr uint64_t k_bytes = 2 * k_block;
    const std::string m_text = std::string(4096, 'w');
    ServerProcess m_server{{"--driver=" SOFTGPU}};
    std::unique_ptr<FakeClient> m_client;
    uint64_t m_window = 0;
};

TEST_F(HostileCallsTest, F3_EveryAddressOfEveryCallIsChecked) {
    ASSERT_GT(range_cases().size(), 30u);
    const uint64_t foreign[] = {0x1000,         m_window - 16,  m_window + k_bytes, m_window + (uint64_t{1} << 33),
                                0x7fffffffe000, UINT64_MAX - 7, uint64_t{1} << 63,  UINT64_MAX};
    const uint64_t numbers[] = {1, 64, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX};
    for (const RangeCase& one : range_cases()) {
        SCOPED_TRACE(one.name);
        for (const uint64_t address : foreign) {
            if (one.in_window && address > m_window && address < m_window + (uint64_t{1} << 40)) continue;
            for (const uint64_t number : numbers) {
                EXPECT_EQ(outcome(one.send(*m_client, address, m_window, number)), CUDA_ERROR_INVALID_VALUE)
                    << std::hex << address << " " << number;
                if (!one.has_extent) break;
            }
        }
        if (!one.has_extent || one.in_window) continue;
        // From memory of the session's own, further than it goes; also by as much as wraps around to it again.
        for (const uint64_t number : {k_bytes + 1, uint64_t{1} << 61, uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX / 2 + 2,
                                      UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - m_window + 1}) {
            EXPECT_EQ(outcome(one.send(*m_client, m_window, m_window, number)), CUDA_ERROR_INVALID_VALUE) << std::hex << number;
        }
    }
}

TEST_F(HostileCallsTest, F3_FillsOfManyRowsAreChecked) {
    const auto fill = [&](uint64_t address, uint64_t pitch, uint64_t width, uint64_t height) {
        return outcome(m_client->call<wire::CuMemsetD2D32Async>(CallId::cuMemsetD2D32Async, [&](auto b) {
            b.setDstDevice(address), b.setDstPitch(pitch), b.setWidth(width), b.setHeight(height);
        }));
    };
    EXPECT_EQ(fill(m_window + 8192, 64, 16, 4), CUDA_SUCCESS);
    // (height - 1) × pitch + row wraps to something small.
    EXPECT_EQ(fill(m_window + 8192, UINT64_MAX - 63, 16, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(fill(m_window + 8192, uint64_t{1} << 63, 16, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(fill(m_window + 8192, uint64_t{1} << 32, 16, (uint64_t{1} << 32) + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(fill(m_window + 8192, 64, uint64_t{1} << 62, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(fill(m_window + 8192, 64, 16, k_bytes / 64), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(fill(0x1000, 64, 0, 1), CUDA_SUCCESS);  // nothing is touched
}

TEST_F(HostileCallsTest, F3_CopiesWithRowsAndLayersAreChecked) {
    CUDA_MEMCPY3D_PEER good{};
    good.srcMemoryType = good.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    good.srcDevice = m_window + 65536;
    good.dstDevice = m_window + k_block;
    good.srcPitch = good.dstPitch = 64;
    good.srcHeight = good.dstHeight = 4;
    good.WidthInBytes = 16;
    good.Height = 4;
    good.Depth = 2;
    const auto copy = [&](auto&& change) {
        CUDA_MEMCPY3D_PEER twisted = good;
        change(twisted);
        return outcome(
            m_client->call<wire::WlCopyOnDevice>(CallId::wlCopyOnDevice, [&](auto b) { b.setCopy(bytes_as_data(twisted)); }));
    };
    EXPECT_EQ(copy([](auto&) {}), CUDA_SUCCESS);
    const auto refused = [&](auto&& change) { EXPECT_EQ(copy(change), CUDA_ERROR_INVALID_VALUE); };
    refused([](auto& c) { c.srcDevice = 0x1000; });
    refused([](auto& c) { c.dstDevice = 0x1000; });
    refused([](auto& c) { c.dstPitch = UINT64_MAX - 63; });
    refused([](auto& c) { c.srcPitch = uint64_t{1} << 63; });
    refused([](auto& c) { c.dstHeight = UINT64_MAX; });
    refused([](auto& c) { c.srcZ = UINT64_MAX; });
    refused([](auto& c) { c.srcY = uint64_t{1} << 60; });
    refused([](auto& c) { c.dstXInBytes = UINT64_MAX - 8; });
    refused([&](auto& c) { c.dstZ = (uint64_t{1} << 56) / 4, c.dstDevice = m_window; });  // z × height × pitch wraps to 0
    refused([](auto& c) { c.WidthInBytes = uint64_t{1} << 63, c.srcPitch = c.dstPitch = uint64_t{1} << 63; });
    // A product of three that wraps even in 128 bits.
    refused([](auto& c) { c.WidthInBytes = c.Height = uint64_t{1} << 43, c.Depth = uint64_t{1} << 42; });
    refused([](auto& c) { c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = reinterpret_cast<void*>(0x1000); });
    refused([](auto& c) { c.srcMemoryType = CU_MEMORYTYPE_UNIFIED, c.srcDevice = 0x1000; });
    refused([](auto& c) { c.dstMemoryType = static_cast<CUmemorytype>(77); });
    // One row: pitch and height have no meaning, and none is made of them.
    EXPECT_EQ(copy([](auto& c) { c.Height = 0, c.Depth = 0, c.srcPitch = UINT64_MAX, c.dstHeight = UINT64_MAX; }),
              CUDA_SUCCESS);
    refused([](auto& c) { c.Height = 0, c.Depth = 0, c.dstZ = 1u << 20, c.dstHeight = 0; });
}

TEST_F(HostileCallsTest, F3_GraphNodesAreChecked) {
    const uint64_t graph = make_token(HandleKind::graph, 1, 0);
    m_client->send<wire::CuGraphCreate>(CallId::cuGraphCreate, [&](auto b) { b.setPhGraph(graph); });
    uint32_t nodes = 0;
    const auto fresh = [&] { return make_token(HandleKind::graph_node, 1, nodes++); };
    const auto memset_node = [&](CUDA_MEMSET_NODE_PARAMS params) {
        return outcome(m_client->call<wire::CuGraphAddMemsetNode>(CallId::cuGraphAddMemsetNode, [&](auto b) {
            b.setPhGraphNode(fresh()), b.setHGraph(graph), b.setCtx(m_client->context),
                b.setMemsetParams(bytes_as_data(params));
        }));
    };
    EXPECT_EQ(memset_node({m_window + 8192, 64, 0, 4, 16, 4}), CUDA_SUCCESS);
    EXPECT_EQ(memset_node({0x1000, 64, 0, 4, 16, 4}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(memset_node({m_window + 8192, UINT64_MAX - 63, 0, 4, 16, 2}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(memset_node({m_window + 8192, 64, 0, 4, uint64_t{1} << 62, 1}), CUDA_ERROR_INVALID_VALUE);
    const auto copy_node = [&](auto&& change) {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = m_window + 65536;
        copy.dstDevice = m_window + k_block;
        copy.srcPitch = copy.dstPitch = 64;
        copy.WidthInBytes = 16;
        copy.Height = 4;
        copy.Depth = 1;
        change(copy);
        return outcome(m_client->call<wire::CuGraphAddMemcpyNode>(CallId::cuGraphAddMemcpyNode, [&](auto b) {
            b.setPhGraphNode(fresh()), b.setHGraph(graph), b.setCtx(m_client->context), b.setCopy(bytes_as_data(copy));
        }));
    };
    EXPECT_EQ(copy_node([](auto&) {}), CUDA_SUCCESS);
    // The first byte alone is not enough.
    EXPECT_EQ(copy_node([](auto& c) { c.WidthInBytes = 8u << 20, c.dstPitch = c.srcPitch = 8u << 20; }),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy_node([](auto& c) { c.dstPitch = uint64_t{1} << 63; }), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy_node([](auto& c) { c.srcY = uint64_t{1} << 58; }), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy_node([](auto& c) { c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = reinterpret_cast<void*>(0x1000); }),
              CUDA_ERROR_INVALID_VALUE);
    const auto batch_node = [&](CUstreamBatchMemOpType operation, uint64_t address) {
        CUstreamBatchMemOpParams item{};
        item.operation = operation;
        item.writeValue.address = address;
        return outcome(m_client->call<wire::CuGraphAddBatchMemOpNode>(CallId::cuGraphAddBatchMemOpNode, [&](auto b) {
            b.setPhGraphNode(fresh()), b.setHGraph(graph), b.setCtx(m_client->context), b.setItems(bytes_as_data(item));
        }));
    };
    EXPECT_EQ(batch_node(CU_STREAM_MEM_OP_WRITE_VALUE_32, m_window + 8192), CUDA_SUCCESS);
    EXPECT_EQ(batch_node(CU_STREAM_MEM_OP_WRITE_VALUE_64, m_window + k_bytes - 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(batch_node(CU_STREAM_MEM_OP_WAIT_VALUE_32, 0x1000), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(batch_node(static_cast<CUstreamBatchMemOpType>(99), m_window), CUDA_ERROR_INVALID_VALUE);
    // A graph that is part of another one is not the client's to destroy; a handle of a condition is one that it was given.
    const uint64_t child = make_token(HandleKind::graph, 1, 1), inner = make_token(HandleKind::graph, 1, 2);
    m_client->send<wire::CuGraphCreate>(CallId::cuGraphCreate, [&](auto b) { b.setPhGraph(child); });
    const uint64_t node = fresh();
    m_client->send<wire::CuGraphAddChildGraphNode>(
        CallId::cuGraphAddChildGraphNode, [&](auto b) { b.setPhGraphNode(node), b.setHGraph(graph), b.setChildGraph(child); });
    m_client->send<wire::CuGraphChildGraphNodeGetGraph>(CallId::cuGraphChildGraphNodeGetGraph,
                                                        [&](auto b) { b.setHNode(node), b.setPhGraph(inner); });
    EXPECT_EQ(outcome(m_client->call<wire::CuGraphDestroy>(CallId::cuGraphDestroy, [&](auto b) { b.setHGraph(inner); })),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(outcome(m_client->call<wire::CuGraphAddNodeV2>(CallId::cuGraphAddNode_v2,
                                                             [&](auto b) {
                                                                 b.setNode(fresh()), b.setHGraph(graph), b.setSize(1);
                                                                 b.setHandle(0x1000);
                                                                 b.initBodies(1).set(0, make_token(HandleKind::graph, 1, 3));
                                                             })),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostileCallsTest, F3_TexturesAndAttributesAreChecked) {
    const auto texture = [&](uint32_t kind, auto&& change) {
        CUDA_RESOURCE_DESC resource{};
        change(resource);
        CUDA_TEXTURE_DESC how{};
        return outcome(m_client->call<wire::CuTexObjectCreate>(CallId::cuTexObjectCreate, [&](auto b) {
            b.setKind(kind), b.setResource(bytes_as_data(resource)), b.setTexture(bytes_as_data(how));
        }));
    };
    const auto linear = [](uint64_t address, uint64_t bytes) {
        return [=](CUDA_RESOURCE_DESC& r) {
            r.resType = CU_RESOURCE_TYPE_LINEAR;
            r.res.linear = {address, CU_AD_FORMAT_FLOAT, 1, bytes};
        };
    };
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_LINEAR, linear(m_window, 4096)), CUDA_SUCCESS);
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_LINEAR, linear(0x1000, 4096)), CUDA_ERROR_INVALID_VALUE);
    // Longer than the memory: not more than what kernels can read anyway, and for the driver to judge.
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_LINEAR, linear(m_window, k_bytes + 1)), CUDA_SUCCESS);
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_LINEAR, linear(m_window + k_bytes, 1)), CUDA_ERROR_INVALID_VALUE);
    // What was looked at as an array is used as linear memory.
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_LINEAR,
                      [](auto& r) {
                          r.res.linear = {0x1000, CU_AD_FORMAT_FLOAT, 1, 4096};
                      }),
              CUDA_ERROR_INVALID_VALUE);
    const auto pitched = [&](uint64_t width, uint64_t height, uint64_t pitch) {
        return [=, window = m_window](CUDA_RESOURCE_DESC& r) {
            r.resType = CU_RESOURCE_TYPE_PITCH2D;
            r.res.pitch2D = {window, CU_AD_FORMAT_FLOAT, 1, width, height, pitch};
        };
    };
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_PITCH2D, pitched(16, 16, 512)), CUDA_SUCCESS);
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_PITCH2D, pitched(16, uint64_t{1} << 60, 512)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(texture(CU_RESOURCE_TYPE_PITCH2D, pitched(uint64_t{1} << 62, 2, 0)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(outcome(m_client->call<wire::CuTexObjectDestroy>(CallId::cuTexObjectDestroy,
                                                               [](auto b) { b.setTexObject(0x7fff12345678); })),
              CUDA_ERROR_INVALID_VALUE);
    program().make_stream();
    const auto attribute = [&](uint32_t id, const CUstreamAttrValue& value) {
        return outcome(m_client->call<wire::CuStreamSetAttribute>(CallId::cuStreamSetAttribute, [&](auto b) {
            b.setHStream(k_stream), b.setAttr(id), b.setParam(bytes_as_data(value));
        }));
    };
    CUstreamAttrValue window{};
    window.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(m_window);
    window.accessPolicyWindow.num_bytes = 4096;
    EXPECT_EQ(attribute(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, window), CUDA_SUCCESS);
    window.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(0x1000);
    EXPECT_EQ(attribute(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, window), CUDA_ERROR_INVALID_VALUE);
    for (const uint32_t unknown : {15u, 17u, 19u, 99u, 0xffffffffu})
        EXPECT_EQ(attribute(unknown, {}), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostileCallsTest, F3_ContextsWriteNoCoreDumps) {
    const uint64_t context = make_token(HandleKind::context, 1, 100);
    for (const unsigned flags : {CU_CTX_COREDUMP_ENABLE, CU_CTX_USER_COREDUMP_ENABLE, CU_CTX_FLAGS_MASK}) {
        EXPECT_EQ(outcome(m_client->call<wire::CuCtxCreateV2>(CallId::cuCtxCreate_v2,
                                                              [&](auto b) { b.setPctx(context), b.setFlags(flags); })),
                  CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(outcome(m_client->call<wire::CuDevicePrimaryCtxSetFlagsV2>(CallId::cuDevicePrimaryCtxSetFlags_v2,
                                                                             [&](auto b) { b.setFlags(flags); })),
                  CUDA_ERROR_NOT_SUPPORTED);
    }
}

TEST_F(HostileCallsTest, F3_ImagesAreWhatTheySay) {
    uint32_t images = 0;
    const auto load = [&](uint32_t kind, std::string_view bytes, std::vector<uint64_t> options = {}, uint64_t value = 0) {
        return outcome(m_client->call<wire::WlImageCompile>(
            CallId::wlImageCompile,
            [&](auto b) {
                b.setImage(make_token(HandleKind::library, 1, 100 + images++)), b.setKind(kind), b.setLibrary(true);
                auto list = b.initOptions(static_cast<unsigned>(options.size()));
                auto values = b.initValues(static_cast<unsigned>(options.size()));
                for (unsigned i = 0; i < options.size(); ++i) list.set(i, options[i]), values.set(i, value);
            },
            as_bytes(bytes)));
    };
    EXPECT_EQ(load(3, k_ptx), CUDA_SUCCESS);
    // The first bytes of the wrapper that a driver follows to memory, of a fatbin and of machine code.
    std::string wrapper("\xb1\x43\x62\x46\x01\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 24);
    std::string fatbin("\x50\xed\x55\xba\x01\x00\x10\x00\xff\xff\xff\x0f\x00\x00\x00\x00", 16);
    for (const uint32_t kind : {1u, 2u, 3u}) {
        EXPECT_EQ(load(kind, wrapper), CUDA_ERROR_INVALID_IMAGE);
        EXPECT_EQ(load(kind, fatbin), CUDA_ERROR_INVALID_IMAGE);
        EXPECT_EQ(load(kind,
                       "\x7f"
                       "ELF\x02\x01\x01"),
                  CUDA_ERROR_INVALID_IMAGE);
        EXPECT_EQ(load(kind, ""), CUDA_ERROR_INVALID_IMAGE);
    }
    EXPECT_EQ(load(1, k_ptx), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(load(2, k_ptx), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(load(4, k_ptx), CUDA_ERROR_INVALID_VALUE);
    // Options: those that this server knows not to be pointers.
    EXPECT_EQ(load(3, k_ptx, {CU_JIT_MAX_REGISTERS}, 32), CUDA_SUCCESS);
    EXPECT_EQ(load(3, k_ptx, {CU_JIT_GLOBAL_SYMBOL_NAMES, CU_JIT_INFO_LOG_BUFFER, CU_JIT_WALL_TIME}, 0x1000), CUDA_SUCCESS);
    for (const uint64_t unknown : {uint64_t{cuda::abi::k_jit_options}, uint64_t{1000}, uint64_t{1} << 32, UINT64_MAX})
        EXPECT_EQ(load(3, k_ptx, {unknown}, 0x1000), CUDA_ERROR_INVALID_VALUE);
    const uint64_t link = make_token(HandleKind::link, 1, 0);
    m_client->send<wire::CuLinkCreateV2>(CallId::cuLinkCreate_v2, [&](auto b) { b.setStateOut(link); });
    const auto add = [&](uint32_t type, std::string_view bytes) {
        return outcome(m_client->call<wire::CuLinkAddDataV2>(
            CallId::cuLinkAddData_v2, [&](auto b) { b.setState(link), b.setType(type); }, as_bytes(bytes)));
    };
    for (const uint32_t type : {0u, 1u, 2u, 3u, 4u, 5u}) EXPECT_EQ(add(type, wrapper), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(add(77, k_ptx), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(add(CU_JIT_INPUT_PTX, k_ptx), CUDA_SUCCESS);
}

TEST_F(HostileCallsTest, F3_AFailedCallAnswersWithNoMemoryOfTheWorkers) {
    const uint64_t array = make_token(HandleKind::array, 1, 0);
    CUDA_ARRAY_DESCRIPTOR row{};
    row.Width = 512, row.Format = CU_AD_FORMAT_UNSIGNED_INT8, row.NumChannels = 1;
    m_client->send<wire::CuArrayCreateV2>(CallId::cuArrayCreate_v2, [&](auto b) {
        b.setPHandle(array);
        b.setPAllocateArray({reinterpret_cast<const capnp::byte*>(&row), sizeof row});
    });
    // The driver is asked, and refuses what is longer than the array.
    for (const uint64_t bytes : {uint64_t{1} << 10, uint64_t{64} << 20}) {
        CUDA_MEMCPY3D_PEER copy{};
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.WidthInBytes = bytes, copy.Height = copy.Depth = 1;
        const FakeReply reply = m_client->call<wire::WlCopyFromDevice>(CallId::wlCopyFromDevice, [&](auto b) {
            b.setSrcArray(array);
            b.setCopy({reinterpret_cast<const capnp::byte*>(&copy), sizeof copy});
        });
        EXPECT_EQ(outcome(reply), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(reply.payload.size(), 0u);
    }
}

TEST_F(HostileCallsTest, F3_LaunchesHaveTheKernelsParameters) {
    program().load(k_ptx);
    const uint64_t store = program().function("store", 0);
    const auto launch = [&](std::string params, std::vector<uint32_t> sizes, std::vector<CUlaunchAttribute> attributes = {}) {
        return outcome(m_client->call<wire::CuLaunchKernelEx>(CallId::cuLaunchKernelEx, [&](auto b) {
            b.setF(store), b.setGridX(1), b.setGridY(1), b.setGridZ(1), b.setBlockX(1), b.setBlockY(1), b.setBlockZ(1);
            b.setParams({reinterpret_cast<const capnp::byte*>(params.data()), params.size()});
            b.setSizes({reinterpret_cast<const capnp::byte*>(sizes.data()), sizes.size() * 4});
            b.setAttributes(
                {reinterpret_cast<const capnp::byte*>(attributes.data()), attributes.size() * sizeof(CUlaunchAttribute)});
        }));
    };
    const uint64_t target = m_window + 8192;
    const std::string address(reinterpret_cast<const char*>(&target), 8);
    EXPECT_EQ(launch(address + "abcd", {8, 4}), CUDA_SUCCESS);
    EXPECT_EQ(program().get(target, 4).payload, "abcd");
    EXPECT_EQ(launch(address + "efgh", {}), CUDA_SUCCESS);
    EXPECT_EQ(program().get(target, 4).payload, "efgh");
    EXPECT_EQ(launch(address, {8}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(address, {}), CUDA_SUCCESS);
    EXPECT_EQ(program().get(target, 4).payload, std::string(4, '\0')) << "what is left out is zero";
    EXPECT_EQ(launch("", {}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(address + "abcd", {4, 8}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(address + "abc", {8, 3}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(address + "abcd1", {8, 4, 1}), CUDA_ERROR_INVALID_VALUE);
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    EXPECT_EQ(launch(address + "abcd", {8, 4}, {attribute}), CUDA_SUCCESS);
    attribute.id = static_cast<CUlaunchAttributeID>(15);
    EXPECT_EQ(launch(address + "abcd", {8, 4}, {attribute}), CUDA_ERROR_INVALID_VALUE);
    attribute.id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
    attribute.value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(0x1000);
    attribute.value.accessPolicyWindow.num_bytes = 4096;
    EXPECT_EQ(launch(address + "abcd", {8, 4}, {attribute}), CUDA_ERROR_INVALID_VALUE);
    // A variable of a library is memory of the session's while the library is there; this one has none.
    m_client->send<wire::CuLibraryUnload>(CallId::cuLibraryUnload, [](auto b) { b.setLibrary(k_library); });
    EXPECT_EQ(launch(address + "abcd", {8, 4}), CUDA_ERROR_INVALID_HANDLE);
}

/// Thousands of calls of all kinds, well-formed and senseless. Whatever they are answered, the worker must be there afterwards.
TEST_F(HostileCallsTest, F3_NoCallEndsTheWorker) {
    // These wait for what never comes, or end everything that the others could use.
    const std::set<std::string> k_left_out{
        "cuStreamWaitValue32_v2", "cuStreamWaitValue64_v2",     "cuStreamBatchMemOp_v2",
        "cuLaunchHostFunc",       "cuStreamAddCallback",        "cuGraphLaunch",
        "cuGraphAddHostNode",     "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2"};
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(seed);
        auto client = m_server.client();
        ASSERT_NE(client, nullptr);
        Program program{*client};
        program.map(client->window, k_block);
        program.load(k_ptx);
        program.function("store", 0);
        FieldSource fields(seed, client->window);
        const std::string payload(256, 'p');
        std::string last;
        for (int round = 0; round < 8; ++round) {
            for (const CallCase& one : call_cases()) {
                if (k_left_out.contains(one.name)) continue;
                const bool with_payload = one.takes_payload && fields.below(4) != 0;
                const uint64_t number = one.send(*client, fields, with_payload ? as_bytes(payload) : BytesView{});
                ASSERT_NE(client->wait_reply(number).result, -1)
                    << one.name << " after " << last << ": " << client->close_reason();
                last = one.name;
            }
        }
        client->say_goodbye();
        EXPECT_TRUE(client->wait_end());
    }
    EXPECT_EQ(m_server.log().find("killed by signal"), std::string::npos);
}

}  // namespace
}  // namespace warpline::server::test
