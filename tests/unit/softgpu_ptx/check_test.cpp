// Tests of what the checker refuses, against ptxas.
#include "ptx_text.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <vector>

#include "softgpu/passes/check.h"

namespace warpline::softgpu::test {
namespace {

using namespace ptx;

struct CheckCase {
    const char* text;
    const char* message;  ///< part of ours; null: accepted
};

// ptxas's verdict on every row is checked below where ptxas is at hand; the words are ours.
constexpr CheckCase k_cases[] = {
    {"add.s32 %s1, %u2, %r3;", nullptr},
    {"add.s32 %s1, %s2, %h3;", "arguments mismatch"},
    {"add.s32 %s1, %s2, %f3;", "arguments mismatch"},
    {"add.f32 %f1, %r2, 0f3F800000;", nullptr},
    {"add.f32 %f1, %f2, 1;", "arguments mismatch"},
    {"add.f32 %f1, %f2, 1.0;", nullptr},
    {"add.f64 %e1, %e2, %f3;", "arguments mismatch"},
    {"add.u32 %r1, %r2;", "arguments mismatch"},
    {"add.u32 %r1, %r2, %r3, %r4;", "arguments mismatch"},
    {"add.u32 5, %r2, %r3;", "arguments mismatch"},
    {"add.u32 _, %r2, %r3;", "arguments mismatch"},
    {"add.u32 %r1, %tid.x, 1;", "arguments mismatch"},
    {"add.b32 %r1, %r2, %r3;", "unexpected instruction types"},
    {"add.u32.u32 %r1, %r2, %r3;", "unexpected instruction types"},
    {"add %r1, %r2, %r3;", "unexpected instruction types"},
    {"add.ftz.s32 %r1, %r2, %r3;", "illegal modifier '.ftz'"},
    {"add.sat.u32 %r1, %r2, %r3;", "illegal modifier '.sat'"},
    {"add.sat.s32 %r1, %r2, %r3;", nullptr},
    {"add.rn.ftz.sat.f32 %f1, %f2, %f3;", nullptr},
    {"add.rn.rz.f32 %f1, %f2, %f3;", "illegal modifier '.rz'"},
    {"add.cc.u32 %r1, %r2, %r3;", nullptr},
    {"add.f16x2 %x1, %r2, %x3;", nullptr},
    {"mul.s32 %r1, %r2, %r3;", "types"},
    {"mul.lo.s32 %r1, %r2, 3;", nullptr},
    {"mul.wide.s32 %d1, %r2, %r3;", nullptr},
    {"mul.wide.s32 %r1, %r2, %r3;", "arguments mismatch"},
    {"mul.wide.s64 %d1, %d2, %d3;", "types"},
    {"mul.lo.f32 %f1, %f2, %f3;", "illegal modifier"},
    {"mad.wide.u16 %r1, %h2, %h3, %r4;", nullptr},
    {"mad.lo.s32 %r1, %r2, %r3;", "arguments mismatch"},
    {"fma.rn.f32 %f1, %f2, %f3, %f4;", nullptr},
    {"fma.f32 %f1, %f2, %f3, %f4;", "modifiers missing"},
    {"div.f32 %f1, %f2, %f3;", ""},
    {"div.approx.ftz.f32 %f1, %f2, %f3;", nullptr},
    {"abs.u32 %r1, %r2;", "types"},
    {"popc.b64 %r1, %d2;", nullptr},
    {"popc.b64 %d1, %d2;", "arguments mismatch"},
    {"bfe.u32 %r1, %r2, 3, %r4;", nullptr},
    {"and.b32 %f1, %f2, %f3;", nullptr},
    {"and.u32 %r1, %r2, %r3;", "types"},
    {"xor.pred %p1, %p2, !%p3;", nullptr},
    {"xor.pred %p1, %p2, %r3;", "arguments mismatch"},
    {"not.b32 %r1, !%p2;", "arguments mismatch"},
    {"shl.b32 %r1, %r2, %r3;", nullptr},
    {"shl.b32 %r1, %r2, %d3;", "arguments mismatch"},
    {"lop3.b32 %r1, %r2, %r3, %r4, 0x96;", nullptr},
    {"lop3.b32 %r1, %r2, %r3, %r4;", "arguments mismatch"},
    {"setp.eq.s32 %p1, %r2, 3;", nullptr},
    {"setp.eq.s32 %r1, %r2, 3;", "arguments mismatch"},
    {"setp.lt.and.s32 %p1|%p2, %r2, 3, !%p4;", nullptr},
    {"setp.lt.s32 %p1, %r2, 3, %p4;", "arguments mismatch"},
    {"setp.lt.b32 %p1, %r2, %r3;", "mismatch between instruction type and comparison"},
    {"setp.lo.s32 %p1, %r2, %r3;", "mismatch between instruction type and comparison"},
    {"setp.ltu.s32 %p1, %r2, %r3;", "mismatch between instruction type and comparison"},
    {"setp.lt.gt.s32 %p1, %r2, %r3;", "modifiers"},
    {"setp.s32 %p1, %r2, %r3;", "modifiers missing"},
    {"set.lt.u32.f32 %r1, %f2, %f3;", nullptr},
    {"selp.u32 %r1, 1, 0, %p1;", nullptr},
    {"selp.f32 %f1, %f2, %f3, %r1;", "arguments mismatch"},
    {"mov.u32 %r1, %tid.y;", nullptr},
    {"mov.u64 %d1, %tid.x;", "arguments mismatch"},
    {"mov.u64 %d1, %clock64;", nullptr},
    {"mov.u64 %d1, gv;", nullptr},
    {"mov.f32 %f1, %r2;", nullptr},
    {"mov.u32 %r1, %f2;", "arguments mismatch"},
    {"mov.b64 %d1, {%r1, %f2};", nullptr},
    {"mov.b64 %d1, {%r1, %h2};", "arguments mismatch"},
    {"mov.u64 %d1, {%r1, %r2};", "arguments mismatch"},
    {"mov.b64 {%r1, _}, %d1;", nullptr},
    {"mov.pred %p1, 1;", nullptr},
    {"mov.u32 _, %r1;", "arguments mismatch"},
    {"cvt.u32.u64 %r1, %d2;", nullptr},
    {"cvt.u8.u32 %r1, %r2;", nullptr},
    {"cvt.s32.f32 %r1, %f2;", ""},
    {"cvt.rzi.s32.f32 %r1, %f2;", nullptr},
    {"cvt.f32.s32 %f1, %r2;", ""},
    {"cvt.rn.f32.s32 %f1, %r2;", nullptr},
    {"cvt.f32.f64 %f1, %e2;", ""},
    {"cvt.f64.f32 %e1, %f2;", nullptr},
    {"cvt.rn.f64.f32 %e1, %f2;", ""},
    {"cvt.rn.bf16x2.f32 %r1, %f2, %f3;", nullptr},
    {"ld.global.u8 %r1, [%d1];", nullptr},
    {"ld.global.u32 %h1, [%d1];", "arguments mismatch"},
    {"ld.global.u32 %f1, [%d1];", "arguments mismatch"},
    {"ld.global.b32 %f1, [%d1];", nullptr},
    {"ld.global.f32 %d1, [%d1];", nullptr},
    {"ld.global.f32 %e1, [%d1];", "arguments mismatch"},
    {"ld.global.v2.u32 {%r1, %r2}, [%d1];", nullptr},
    {"ld.global.v2.u32 {%r1, %r2, %r3}, [%d1];", "arguments mismatch"},
    {"ld.global.u32 {%r1, %r2}, [%d1];", "arguments mismatch"},
    {"ld.global.v4.u32 {%r1, _, _, %r2}, [%d1];", nullptr},
    {"ld.global.v2.u32 {%r1, 5}, [%d1];", "arguments mismatch"},
    {"ld.global.u32 %r1, %d1;", "arguments mismatch"},
    {"ld.global.u32 %r1, gv;", "arguments mismatch"},
    {"ld.global.u32 %r1, [gv+4];", nullptr},
    {"ld.global.u32 %r1, gv[1];", nullptr},
    {"ld.shared.u32 %r1, [gv];", "state space mismatch"},
    {"ld.global.u32 %r1, [prm];", "state space mismatch"},
    {"ld.param.u64 %d1, [prm];", nullptr},
    {"ld.global.u32 %r1, [16];", "immediate addresses"},
    {"ld.global.shared.u32 %r1, [%d1];", "number of state spaces"},
    {"ld.global.f16 %h1, [%d1];", "types"},
    {"ld.relaxed.gpu.global.u32 %r1, [%d1];", nullptr},
    {"ld.relaxed.global.u32 %r1, [%d1];", "go together"},
    {"ld.gpu.global.u32 %r1, [%d1];", "go together"},
    {"st.global.u8 [%d1], 5;", nullptr},
    {"st.global.f32 [%d1], 1;", "arguments mismatch"},
    {"st.param.b32 [prm], %r1;", "input parameter"},
    {"st.param.b32 [p32], %r1;", nullptr},
    {"atom.global.add.u32 %r1, [%d1], 2;", nullptr},
    {"atom.global.add.u32 _, [%d1], 2;", nullptr},
    {"atom.global.cas.b32 %r1, [%d1], %r2;", "arguments mismatch"},
    {"atom.global.add.b32 %r1, [%d1], %r2;", "types"},
    {"red.global.max.s64 [%d1], %d2;", nullptr},
    {"cvta.to.global.u64 %d1, %d2;", nullptr},
    {"cvta.global.u64 %d1, gv;", nullptr},
    {"shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;", nullptr},
    {"shfl.sync.b32 %r1, %r2, 0, 31, -1;", "modifiers missing"},
    {"shfl.sync.up.down.b32 %r1, %r2, 0, 31, -1;", "modifiers"},
    {"shfl.sync.up.b32 %r1, %r2, 0, 31;", "arguments mismatch"},
    {"vote.sync.ballot.b32 %r1, %p1, -1;", nullptr},
    {"vote.sync.ballot.b32 %r1, %r2, -1;", "arguments mismatch"},
    {"match.any.sync.b64 %r1, %d2, -1;", nullptr},
    {"activemask.b32 %r1;", nullptr},
    {"redux.sync.add.s32 %r1, %r2, -1;", nullptr},
    {"bar.sync 0;", nullptr},
    {"bar.sync;", "arguments mismatch"},
    {"bar.red.popc.u32 %r1, 0, %p1;", nullptr},
    {"membar.gl;", nullptr},
    {"membar;", "modifiers missing"},
    {"ret %r1;", "arguments mismatch"},
    {"exit 1;", "arguments mismatch"},
    {"nanosleep.u32 100;", nullptr},
    {"mbarrier.init.shared.b64 [sv], 3;", nullptr},
    {"mbarrier.try_wait.parity.shared.b64 %p1, [sv], 1;", nullptr},
    {"mbarrier.try_wait.parity.shared.b64 %r1, [sv], 1;", "arguments mismatch"},
    {"cp.async.ca.shared.global [%r1], [%d1], 4;", nullptr},
    {"cp.async.ca.shared.global [%r1], [%d1];", "arguments mismatch"},
    {"cp.async.wait_group 2;", nullptr},
    {"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];", nullptr},
    {"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, 3}, [%r3];", "arguments mismatch"},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
     nullptr},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6};",
     "arguments mismatch"},
    {"vadd4.u32.u32.u32 %r1, %r2, %r3, %r4;", nullptr},
    {"vadd4.u32.u32.u32 %r1, %r2, %r3;", "arguments mismatch"},
    {"call (p32), callee, (%r1, p64);", nullptr},
    {"call (p32), callee, (%r1);", "number of arguments"},
    {"call callee, (%r1, p64);", "number of arguments"},
    {"call (p32), callee, (p64, p64);", "argument 1"},
    {"call k;", "is an entry"},
};

std::string verdict(const std::string& text) {
    ParseResult result = parse(text);
    Diagnostics diagnostics = result.diagnostics;
    if (result.module && parse_all_bodies(*result.module, diagnostics)) passes::check(*result.module, diagnostics);
    return diagnostics.empty() ? "" : diagnostics[0].text;
}

TEST(PtxCheck, Table) {
    for (const CheckCase& c : k_cases) {
        std::string message = verdict(with_entry(c.text));
        if (c.message == nullptr)
            EXPECT_EQ(message, "") << c.text;
        else
            EXPECT_TRUE(!message.empty() && message.find(c.message) != std::string::npos) << c.text << "\n  gave: " << message;
    }
}

// ptxas agrees with the table. It reports at most one message a line, and gives up at what it cannot even parse; then the rest
// goes to it again without that line.
TEST(PtxCheck, TableAgreesWithPtxas) {
    if (std::system("ptxas --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no ptxas here";
    const std::string name = testing::TempDir() + "warpline_check_table";
    std::vector<size_t> left;
    std::set<size_t> refused;
    for (size_t i = 0; i < std::size(k_cases); i++) left.push_back(i);
    size_t first_line = 0;
    while (true) {
        std::string body;
        for (size_t i : left) body += std::string(k_cases[i].text) + "\n";
        std::string text = with_entry(body);
        size_t before = text.find(body);
        first_line = 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(before), '\n'));
        std::ofstream(name + ".ptx") << text;
        int status = std::system(("ptxas -O0 -arch=sm_90 -o /dev/null " + name + ".ptx 2> " + name + ".log").c_str());
        std::set<size_t> bad;
        std::ifstream log(name + ".log");
        for (std::string line; std::getline(log, line);) {
            size_t at = line.find(", line "), number = 0;
            bool is_error = line.find("; error") != std::string::npos || line.find("; fatal") != std::string::npos;
            if (at == std::string::npos || !is_error || std::sscanf(line.c_str() + at, ", line %zu", &number) != 1) continue;
            if (number >= first_line && number - first_line < left.size()) bad.insert(left[number - first_line]);
        }
        if (bad.empty()) {
            ASSERT_EQ(status, 0) << "ptxas refuses, but says no line";
            break;
        }
        refused.insert(bad.begin(), bad.end());
        std::erase_if(left, [&](size_t i) { return bad.count(i) != 0; });
    }
    for (size_t i = 0; i < std::size(k_cases); i++)
        EXPECT_EQ(refused.count(i) != 0, k_cases[i].message != nullptr) << k_cases[i].text;
}

TEST(PtxCheck, MessagesHavePlaces) {
    auto module = parsed(with_header(".entry k() {\n  .reg .b32 %r<3>;\n    add.f32 %r1, %r2;\n}\n"));
    Diagnostics diagnostics;
    EXPECT_FALSE(passes::check(*module, diagnostics));
    ASSERT_EQ(diagnostics.size(), 1u);
    EXPECT_EQ(to_string(*module, diagnostics[0]), "6:5: arguments mismatch for instruction 'add'");
    EXPECT_EQ(diagnostics[0].kind, DiagnosticKind::type);
}

}  // namespace
}  // namespace warpline::softgpu::test
