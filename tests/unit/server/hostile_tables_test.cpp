// What the server keeps of a client's, against a client that wants to hurt: ranges, texts for the log, tickets of graphs.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <map>
#include <set>

#include "common/base/region.h"
#include "cuda/abi/newer_values.h"
#include "protocol/codec/outbox.h"
#include "server/daemon/worker_process.h"
#include "server/hooks/images.h"
#include "server/objects/given_values.h"
#include "server/objects/graph_tickets.h"
#include "server/objects/links.h"
#include "server/objects/stream_watch.h"
#include "server/session/session.h"

namespace warpline::server {

namespace {

TEST(Checked, F3_NeverWrapsAround) {
    EXPECT_EQ((Checked(3) + 4).value(), 7u);
    EXPECT_EQ((Checked(3) * 4).value(), 12u);
    EXPECT_TRUE((Checked(UINT64_MAX) + 0).fits());
    EXPECT_FALSE((Checked(UINT64_MAX) + 1).fits());
    EXPECT_FALSE((Checked(uint64_t{1} << 32) * (uint64_t{1} << 32)).fits());
    // Once too large, always too large; but nothing of it is nothing.
    EXPECT_FALSE((Checked(UINT64_MAX) * 2 + 2).fits());
    EXPECT_FALSE((Checked(UINT64_MAX) * 2 * 3).fits());
    EXPECT_TRUE((Checked(UINT64_MAX) * 2 * 0).is_zero());
    EXPECT_FALSE((Checked(UINT64_MAX) + 1).at_most(UINT64_MAX));
}

TEST(Region, F3_SpansFromTheFirstByteToTheLast) {
    EXPECT_EQ((Region{100, 8}.span().value()), 8u);
    EXPECT_EQ((Region{100, 8, 3, 64}.span().value()), 2 * 64 + 8u);
    EXPECT_EQ((Region{100, 8, 3, 64, 2, 1000}.span().value()), 1000 + 2 * 64 + 8u);
    EXPECT_EQ((Region{100, 8, 1, UINT64_MAX}.span().value()), 8u);  // one row: its pitch has no meaning
    EXPECT_TRUE((Region{100, 0, 3, 64}.is_empty()));
    EXPECT_FALSE((Region{100, 64, 2, UINT64_MAX - 63}.fits()));  // would wrap to the beginning
    EXPECT_FALSE((Region{100, 8, (uint64_t{1} << 32) + 1, uint64_t{1} << 32}.fits()));
    EXPECT_FALSE((Region{UINT64_MAX - 7, 9}.fits()));
    EXPECT_FALSE((Region{100, 8, 2, 64, 2, UINT64_MAX}.fits()));
}

TEST(DriverText, C5_CannotControlATerminalNorLookLikeTheLog) {
    const auto logged = [](std::vector<std::string> pieces) {
        int ends[2];
        EXPECT_EQ(pipe(ends), 0);
        DriverText text;
        std::string out;
        for (const std::string& piece : pieces) {
            text.write(ends[1], as_bytes(piece));
            std::array<char, 8192> buffer;
            const ssize_t got = piece.empty() ? 0 : read(ends[0], buffer.data(), buffer.size());
            out.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
        }
        close(ends[0]);
        close(ends[1]);
        return out;
    };
    EXPECT_EQ(logged({"Assertion `x` failed\n"}), "driver: Assertion `x` failed\n");
    EXPECT_EQ(logged({"a\n2026-01-01 session end\n"}), "driver: a\ndriver: 2026-01-01 session end\n");
    EXPECT_EQ(logged({"\x1b[2J\r\x07\x7f"}), "driver: \\x1b[2J\\x0d\\x07\\x7f");
    EXPECT_EQ(logged({"\xc2\x9b"
                      "2J"}),
              "driver: \\xc2\\x9b2J");  // the same as one character of UTF-8
    EXPECT_EQ(logged({"one ", "line\n", "two"}), "driver: one line\ndriver: two");
    EXPECT_EQ(logged({std::string(4000, 'x') + "\ny"}), "driver: " + std::string(1024, 'x') + " […]\ndriver: y");
}

TEST(DriverText, C5_HasAnEnd) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    DriverText text;
    const std::string line = std::string(1000, 'x') + "\n";
    std::string written;
    for (int i = 0; i < 3000; ++i) {
        text.write(ends[1], as_bytes(line));
        std::array<char, 8192> buffer;
        const ssize_t got = read(ends[0], buffer.data(), buffer.size());
        if (got > 0) written.append(buffer.data(), static_cast<size_t>(got));
    }
    close(ends[0]);
    close(ends[1]);
    EXPECT_LT(written.size(), DriverText::k_max_bytes + 8192);
    EXPECT_TRUE(written.ends_with("no more of this session's output is copied here\n"));
}

TEST(GivenValues, F3_OnlyWhatWasGivenIsKnown) {
    using Kind = GivenValues::Kind;
    GivenValues given;
    given.add(Kind::texture, 7, 100);
    EXPECT_TRUE(given.contains(Kind::texture, 7));
    EXPECT_FALSE(given.contains(Kind::surface, 7));
    EXPECT_FALSE(given.contains(Kind::texture, 8));
    given.owner_ended(101);
    EXPECT_TRUE(given.contains(Kind::texture, 7));
    given.owner_ended(100);
    EXPECT_FALSE(given.contains(Kind::texture, 7));
}

TEST(Links, F3_AreBounded) {
    Links links;
    const auto alive = [](uint64_t token) { return token >= 10; };
    for (uint64_t i = 0; i < Links::k_max_links; ++i) {
        ASSERT_FALSE(links.full(alive));
        links.add(i, nullptr);
    }
    EXPECT_FALSE(links.full(alive)) << "ten of them ended with their context";
    for (uint64_t i = 0; i < 10; ++i) links.add(10000 + i, nullptr);
    EXPECT_TRUE(links.full(alive));
}

/// User objects as a driver keeps them: of graphs, by reference.
struct FakeUserObjects {
    struct Object {
        void* data;
        CUhostFn destroy;
        int references;
    };
    static inline std::map<CUgraph, std::multiset<Object*>> of_graph;

    static DriverTable table() {
        DriverTable table;
        table.cuUserObjectCreate = [](CUuserObject* object, void* data, CUhostFn destroy, unsigned references, unsigned) {
            *object = reinterpret_cast<CUuserObject>(new Object{data, destroy, static_cast<int>(references)});
            return CUDA_SUCCESS;
        };
        table.cuGraphRetainUserObject = [](CUgraph graph, CUuserObject object, unsigned, unsigned) {
            of_graph[graph].insert(reinterpret_cast<Object*>(object));
            return CUDA_SUCCESS;
        };
        table.cuGraphReleaseUserObject = [](CUgraph graph, CUuserObject object, unsigned) {
            auto* mine = reinterpret_cast<Object*>(object);
            of_graph[graph].erase(of_graph[graph].find(mine));
            release(mine);
            return CUDA_SUCCESS;
        };
        return table;
    }
    static void release(Object* object) {
        if (--object->references > 0) return;
        object->destroy(object->data);
        delete object;
    }
    static void destroy(CUgraph graph) {
        for (Object* object : of_graph[graph]) release(object);
        of_graph.erase(graph);
    }
};

/// A session's port that nothing goes through.
struct NoClient final : ClientPort {
    protocol::Outbox m_outbox;
    protocol::Outbox& outbox() override { return m_outbox; }
    void flush() override {}
    void did_misbehave(const char*) override {}
    size_t chunk_bytes() const override { return 1024; }
};

TEST(GraphTickets, C5_EndWithTheirGraphAndWhenReplaced) {
    const Driver driver{FakeUserObjects::table(), DriverKind::nvidia, 13000};
    NoClient client;
    LookFirst look_first(std::chrono::microseconds(0));
    StreamWatch watch(driver, look_first);
    AsyncCopies copies(driver, client, watch, 1 << 20);
    HostCalls host_calls(client, copies);
    GraphTickets tickets(driver, host_calls);
    const auto graph = reinterpret_cast<CUgraph>(0x10);
    const auto node = reinterpret_cast<CUgraphNode>(0x20);
    tickets.give(graph, node, host_calls.make_ticket(1, false));
    tickets.give(graph, nullptr, host_calls.make_ticket(2, false));  // captured
    EXPECT_EQ(host_calls.tickets(), 2u);
    for (uint64_t id = 3; id < 1000; ++id) tickets.give(graph, node, host_calls.make_ticket(id, false));
    EXPECT_EQ(host_calls.tickets(), 2u);
    FakeUserObjects::destroy(graph);
    tickets.graph_gone(graph);
    EXPECT_EQ(host_calls.tickets(), 0u);
}

TEST(GraphTickets, C5_OfAnExecutableGraphEndWhenItsLaunchesHave) {
    const Driver driver{FakeUserObjects::table(), DriverKind::nvidia, 13000};
    NoClient client;
    LookFirst look_first(std::chrono::microseconds(0));
    StreamWatch watch(driver, look_first);
    AsyncCopies copies(driver, client, watch, 1 << 20);
    HostCalls host_calls(client, copies);
    GraphTickets tickets(driver, host_calls);
    const auto exec = reinterpret_cast<CUgraphExec>(0x10);
    const auto node = reinterpret_cast<CUgraphNode>(0x20);
    tickets.launched(7);
    for (uint64_t id = 1; id <= 100; ++id) tickets.give(exec, node, host_calls.make_ticket(id, false));
    tickets.sweep({{exec, 7}});
    EXPECT_EQ(host_calls.tickets(), 100u) << "a launch may still run any of them";
    tickets.sweep({{exec, 8}});
    EXPECT_EQ(host_calls.tickets(), 1u) << "later launches have another one";
    tickets.retire(exec);
    tickets.sweep({});
    EXPECT_EQ(host_calls.tickets(), 0u);
}

TEST(JitLog, F3_TakesOnlyOptionsThatItKnows) {
    JitLog newer;
    EXPECT_TRUE(newer.prepare({cuda::abi::k_jit_loader_thread_count}, {2}));
    EXPECT_EQ(newer.options()[0], cuda::abi::k_jit_loader_thread_count);
    JitLog log;
    EXPECT_TRUE(log.prepare({CU_JIT_MAX_REGISTERS, CU_JIT_INFO_LOG_BUFFER, CU_JIT_REFERENCED_KERNEL_COUNT}, {32, 0x1000, 5}));
    ASSERT_EQ(log.count(), 2u);  // the number, and a log of our own
    EXPECT_EQ(log.options()[0], CU_JIT_MAX_REGISTERS);
    EXPECT_EQ(log.options()[1], CU_JIT_INFO_LOG_BUFFER);
    EXPECT_NE(log.values()[1], reinterpret_cast<void*>(0x1000));
    for (const uint64_t unknown : {uint64_t{cuda::abi::k_jit_options}, uint64_t{500}, uint64_t{1} << 32}) {
        JitLog other;
        EXPECT_FALSE(other.prepare({unknown}, {0x1000}));
    }
}

}  // namespace

}  // namespace warpline::server
