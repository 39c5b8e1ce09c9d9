// Tests of the checkers.
#include <optional>

#include "softgpu/check/checker.h"
#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

/// A device whose reports are collected.
class SoftgpuChecks : public testing::Test {
protected:
    void open(uint32_t checks) {
        m_checker.emplace(checks, [this](const std::string& text) { m_reports.push_back(text); });
        EngineOptions options;
        options.checker = &*m_checker;
        m_device = std::make_unique<Device>(options);
    }
    /// Runs one kernel of two words per line; `%x` stands for the thread's number, `%a` for the argument's address.
    template <typename... Args>
    Fault run(const std::string& body, Device::Shape shape, Args... args) {
        auto module =
            m_device->load(with_head(".visible .entry kernel(.param .u64 out)\n{\n"
                                     ".reg .b32 %x, %y, %z, %r<8>;\n.reg .b64 %a, %b, %c;\n.reg .pred %p, %q;\n"
                                     ".shared .align 16 .b8 words[1024];\n.local .align 16 .b8 mine[64];\n"
                                     "ld.param.u64 %a, [out];\nmov.u32 %x, %tid.x;\n" +
                                     body + "\nret;\n}\n"));
        return m_device->launch(*module, "kernel", shape, args...);
    }
    /// The only report, without its prefixes.
    std::string only() {
        EXPECT_EQ(m_reports.size(), 1u) << all();
        return m_reports.empty() ? std::string() : m_reports[0];
    }
    std::string all() const {
        std::string text;
        for (const std::string& report : m_reports) text += report;
        return text;
    }
    std::optional<check::Checker> m_checker;
    std::unique_ptr<Device> m_device;
    std::vector<std::string> m_reports;
};

/// Line of the first line of the body that run() is given.
constexpr int k_first_line = 13;

std::string at_line(const std::string& opcode, int line_of_body) {
    return opcode + " at ptx:" + std::to_string(k_first_line - 1 + line_of_body) + ", in kernel";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(SoftgpuChecks, BoundsNameTheNearestAllocation) {
    open(check::check_memory);
    uint64_t memory = m_device->allocate(400);
    m_checker->allocations.add(memory, 400);
    Fault fault = run("mul.wide.u32 %b, %x, 4;\nadd.s64 %b, %a, %b;\nst.global.u32 [%b+12], %x;", {.block = {100}}, memory);
    EXPECT_EQ(fault.cu_result, 700);
    EXPECT_HAS(only(), "Invalid write of 4 bytes");
    EXPECT_HAS(only(), at_line("st.global.u32", 3));
    EXPECT_HAS(only(), "by thread (97,0,0) in block (0,0,0)");
    EXPECT_HAS(only(), "0 bytes past the end of a 400-byte allocation at ");
}

// A8. Beyond a module's constants a GPU reads zeros up to 64 KiB, and so do we; who checks memory is told.
TEST_F(SoftgpuChecks, ReadsBeyondConstants) {
    const std::string kernel =
        ".const .align 4 .u32 table[2] = {7, 9};\n.visible .entry kernel(.param .u64 out, .param .u32 offset)\n{\n"
        ".reg .b32 %x, %o;\n.reg .b64 %a, %b, %t;\nld.param.u64 %a, [out];\nld.param.u32 %o, [offset];\n"
        "cvt.u64.u32 %t, %o;\nmov.u64 %b, table;\nadd.s64 %t, %t, %b;\n"
        "ld.const.u32 %x, [%t];\nst.global.u32 [%a], %x;\nret;\n}\n";
    for (uint32_t checks : {0u, uint32_t{check::check_memory}}) {
        m_reports.clear();
        open(checks);
        auto module = m_device->load(with_head(kernel));
        uint64_t memory = m_device->upload(std::vector<uint32_t>{1});
        const std::vector<std::pair<uint32_t, uint32_t>> offsets{{4, 9}, {8, 0}, {65532, 0}};
        for (auto [offset, value] : offsets) {
            const bool beyond = offset >= 8;
            Fault fault = m_device->launch(*module, "kernel", {}, memory, offset);
            EXPECT_EQ(fault.cu_result, beyond && checks != 0 ? 700 : 0) << offset;
            if (fault.cu_result != 0) break;
            EXPECT_EQ(m_device->download<uint32_t>(memory, 1)[0], value) << offset;
        }
        EXPECT_EQ(m_reports.size(), checks == 0 ? 0u : 1u) << all();
        EXPECT_EQ(m_device->launch(*module, "kernel", {}, memory, 1u << 30).cu_result, 700);
    }
}

TEST_F(SoftgpuChecks, FreedMemoryIsNamed) {
    open(check::check_memory);
    uint64_t memory = m_device->allocate(400);
    m_checker->allocations.add(memory, 400);
    m_checker->allocations.remove(memory);
    m_device->free_all();
    EXPECT_EQ(run("ld.global.v2.u32 {%y, %z}, [%a+8];", {}, memory).cu_result, 700);
    EXPECT_HAS(only(), "Invalid read of 8 bytes");
    EXPECT_HAS(only(), "8 bytes into a 400-byte allocation at ");
    EXPECT_HAS(only(), "that was freed");
}

TEST_F(SoftgpuChecks, MisalignedSharedAndLocalAccesses) {
    open(check::check_memory);
    uint64_t memory = m_device->allocate(64);
    EXPECT_EQ(run("st.global.u16 [%a+3], %x;", {}, memory).cu_result, 716);
    EXPECT_HAS(only(), "Misaligned write of 2 bytes");
    m_reports.clear();
    EXPECT_EQ(run("mov.u32 %y, words;\nst.shared.u32 [%y+1024], %x;", {}, memory).cu_result, 700);
    EXPECT_HAS(only(), at_line("st.shared.u32", 2));
    EXPECT_HAS(only(), "of which the block has 1024 bytes");
    m_reports.clear();
    EXPECT_EQ(run("mov.u32 %y, mine;\nld.local.u32 %z, [%y+64];", {}, memory).cu_result, 700);
    EXPECT_HAS(only(), at_line("ld.local.u32", 2));
    EXPECT_HAS(only(), "of which the thread uses 64 bytes");
}

TEST_F(SoftgpuChecks, UninitialisedReads) {
    open(check::check_init);
    uint64_t memory = m_device->allocate(256);
    m_checker->written.track(memory, 256);
    // Threads write all words but one, which thread 6 reads.
    EXPECT_RUNS(
        run("setp.eq.u32 %p, %x, 5;\nmul.wide.u32 %b, %x, 4;\nadd.s64 %b, %a, %b;\n@!%p st.global.u32 [%b], %x;\n"
            "setp.eq.u32 %q, %x, 6;\nadd.s64 %b, %b, -4;\n@%q ld.global.u32 %y, [%b];\n@!%p ld.global.u32 %y, [%b+4];",
            {.block = {8}}, memory));
    EXPECT_HAS(only(), "Read of 4 bytes of global memory that nothing has written");
    EXPECT_HAS(only(), at_line("ld.global.u32", 7));
    EXPECT_HAS(only(), "by thread (6,0,0) in block (0,0,0)");
    EXPECT_HAS(only(), "byte 20 of a 256-byte allocation");
}

TEST_F(SoftgpuChecks, UninitialisedReadsOfSharedAndLocalMemory) {
    open(check::check_init);
    uint64_t memory = m_device->allocate(64);
    EXPECT_RUNS(
        run("mov.u32 %y, words;\nst.shared.u8 [%y+4], %x;\nld.shared.u32 %z, [%y+4];\nld.shared.u32 %z, [%y+8];\n"
            "st.local.v2.u32 [mine+8], {%x, %x};\nld.local.u64 %b, [mine+8];\nld.local.u16 %z, [mine+16];",
            {.grid = {3}}, memory));
    ASSERT_EQ(m_reports.size(), 2u) << all();
    EXPECT_HAS(m_reports[0], "4 bytes of shared memory");
    EXPECT_HAS(m_reports[0], at_line("ld.shared.u32", 4));
    EXPECT_HAS(m_reports[1], "2 bytes of local memory");
    EXPECT_HAS(m_reports[1], at_line("ld.local.u16", 7));
    EXPECT_EQ(m_checker->reporter.totals().first, 6u);  // every block's counts
}

/// Each thread writes its word, `order`, and reads its right neighbour's.
std::string exchange(const std::string& order) {
    return "mov.u32 %y, words;\nshl.b32 %z, %x, 2;\nadd.u32 %y, %y, %z;\nst.shared.u32 [%y], %x;\n" + order +
           "\nxor.b32 %y, %y, 4;\nld.shared.u32 %z, [%y];";
}

TEST_F(SoftgpuChecks, RaceOfAWriteAndARead) {
    open(check::check_race);
    EXPECT_RUNS(run(exchange("//"), {.block = {64}}, uint64_t{0}));
    EXPECT_HAS(only(), "Race in shared memory: read after write at offset ");
    EXPECT_HAS(only(), at_line("ld.shared.u32", 7));
    EXPECT_HAS(only(), at_line("st.shared.u32", 4));
    EXPECT_HAS(only(), "by thread (0,0,0) in block (0,0,0)");
    EXPECT_HAS(only(), "by thread (1,0,0) in block (0,0,0)");
    EXPECT_EQ(m_checker->reporter.totals().first, 64u);
}

TEST_F(SoftgpuChecks, BarriersOrder) {
    for (const char* order : {"bar.sync 0;", "bar.warp.sync 0xffffffff;", "barrier.sync 1, 64;"}) {
        open(check::check_race);
        EXPECT_RUNS(run(exchange(order), {.grid = {2}, .block = {64}}, uint64_t{0}));
        EXPECT_TRUE(m_reports.empty()) << order << all();
    }
}

TEST_F(SoftgpuChecks, BarWarpSyncOrdersItsMembersOnly) {
    open(check::check_race);
    // Lanes meet in pairs, which is not who they read from.
    EXPECT_RUNS(
        run("mov.u32 %r0, 3;\nand.b32 %r1, %x, 30;\nshl.b32 %r0, %r0, %r1;\n"
            "mov.u32 %y, words;\nshl.b32 %z, %x, 2;\nadd.u32 %y, %y, %z;\nst.shared.u32 [%y], %x;\nbar.warp.sync %r0;\n"
            "xor.b32 %r2, %y, 4;\nld.shared.u32 %z, [%r2];\nxor.b32 %r2, %y, 8;\nld.shared.u32 %z, [%r2];",
            {.block = {32}}, uint64_t{0}));
    EXPECT_HAS(only(), at_line("ld.shared.u32", 12));
}

TEST_F(SoftgpuChecks, ABarrierOfSomeWarpsDoesNotOrderTheOthers) {
    open(check::check_race);
    // Warps 0 and 1 meet; warp 2 does not, and reads what warp 0 wrote.
    EXPECT_RUNS(
        run("setp.ge.u32 %p, %x, 64;\nsetp.eq.u32 %q, %x, 0;\nmov.u32 %y, words;\n@%q st.shared.u32 [%y], %y;\n@%p bra OUT;\n"
            "barrier.sync 1, 64;\nld.shared.u32 %z, [%y];\nret;\nOUT:\nld.shared.u32 %z, [%y];",
            {.block = {96}}, uint64_t{0}));
    EXPECT_HAS(only(), at_line("ld.shared.u32", 10));
    EXPECT_HAS(only(), "by thread (64,0,0)");
}

TEST_F(SoftgpuChecks, WritesOfOneInstructionRace) {
    open(check::check_race);
    EXPECT_RUNS(run("mov.u32 %y, words;\nst.shared.u32 [%y], %x;", {.block = {2}}, uint64_t{0}));
    EXPECT_HAS(only(), "write after write");
    m_reports.clear();
    // Equal values do no harm.
    EXPECT_RUNS(run("mov.u32 %y, words;\nst.shared.u32 [%y], %y;", {.block = {64}}, uint64_t{0}));
    EXPECT_TRUE(m_reports.empty()) << all();
    EXPECT_RUNS(run("mov.u32 %y, words;\nadd.u32 %y, %y, %x;\nst.shared.u8 [%y], %x;", {.block = {64}}, uint64_t{0}));
    EXPECT_TRUE(m_reports.empty()) << all();
}

TEST_F(SoftgpuChecks, ReadsBeforeAWriteAreRemembered) {
    open(check::check_race);
    EXPECT_RUNS(
        run("mov.u32 %y, words;\nld.shared.u32 %z, [%y];\nbar.warp.sync 0xffffffff;\nsetp.eq.u32 %p, %x, 40;\n"
            "@%p st.shared.u32 [%y], %x;",
            {.block = {64}}, uint64_t{0}));
    EXPECT_HAS(only(), "write after read");
    EXPECT_HAS(only(), "by thread (40,0,0)");
}

TEST_F(SoftgpuChecks, AtomicsOrderAndDoNotRace) {
    open(check::check_race);
    EXPECT_RUNS(run("mov.u32 %y, words;\natom.shared.add.u32 %z, [%y], 1;", {.block = {128}}, uint64_t{0}));
    EXPECT_TRUE(m_reports.empty()) << all();
    // Thread 0 hands a value over with a flag; the other warp waits for it.
    EXPECT_RUNS(
        run("mov.u32 %y, words;\nsetp.eq.u32 %p, %x, 0;\nsetp.lt.u32 %q, %x, 32;\n@%p st.shared.u32 [%y+8], %y;\n"
            "membar.cta;\n@%p st.volatile.shared.u32 [%y], %y;\n@%q ret;\nAGAIN:\nld.volatile.shared.u32 %z, [%y];\n"
            "setp.eq.u32 %p, %z, 0;\n@%p bra AGAIN;\nld.shared.u32 %z, [%y+8];",
            {.block = {64}}, uint64_t{0}));
    EXPECT_TRUE(m_reports.empty()) << all();
    // A plain read beside an atomic.
    EXPECT_RUNS(
        run("mov.u32 %y, words;\natom.shared.add.u32 %z, [%y], 1;\nld.shared.u32 %z, [%y+0];\nmov.u32 %r0, words;\n"
            "add.u32 %r0, %r0, 16;\nred.shared.add.u32 [%r0], 1;",
            {.block = {1}}, uint64_t{0}));
    EXPECT_TRUE(m_reports.empty()) << all();
}

TEST_F(SoftgpuChecks, OneReportPerPlaceAndABoundOnAll) {
    open(check::check_init);
    uint64_t memory = m_device->allocate(4096);
    m_checker->written.track(memory, 4096);
    std::string body;
    for (int i = 0; i < 150; ++i) body += "ld.global.u32 %y, [%a+" + std::to_string(4 * i) + "];\n";
    EXPECT_RUNS(run(body, {.block = {32}}, memory));
    EXPECT_EQ(m_reports.size(), check::Reporter::k_most_printed + 1);
    EXPECT_HAS(m_reports.back(), "Further places are counted only");
    EXPECT_EQ(m_checker->reporter.totals(), (std::pair<uint64_t, uint64_t>{150 * 32, 150}));
}

TEST(CheckOptions, WordsAndUnknownOnes) {
    EXPECT_EQ(check::parse_checks("memory,race").checks, check::check_memory | check::check_race);
    EXPECT_EQ(check::parse_checks(" init , leak").checks, check::check_init | check::check_leak);
    EXPECT_EQ(check::parse_checks("").checks, 0u);
    EXPECT_EQ(check::parse_checks("memory,races,x").unknown, "races");
    EXPECT_TRUE(check::parse_checks("memory,").unknown.empty());
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
