// Runs one instruction on many operands.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/unit/softgpu_exec/harness.h"

/// One PTX instruction, run over arrays of operands.
namespace warpline::softgpu::exec::test {

/// Assembles a text with ptxas, so that no test is written in a language of our own. True where ptxas is not on PATH, and in
/// builds that leave it out (WARPLINE_PTX_ASSEMBLE).
inline bool ptxas_accepts(const std::string& ptx, const std::string& arch, std::string& messages) {
    if (WARPLINE_PTX_ASSEMBLE == 0) return true;
    if (std::system("command -v ptxas >/dev/null 2>&1") != 0) return true;
    std::string path = (std::filesystem::temp_directory_path() / "softgpu-isa-").string() + std::string(6, 'X');
    int fd = mkstemp(path.data());
    if (fd < 0) return false;
    bool written = write(fd, ptx.data(), ptx.size()) == ssize_t(ptx.size());
    close(fd);
    std::string command = "ptxas -arch=" + arch + " -o /dev/null " + path + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    char line[512];
    while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) messages += line;
    bool accepted = pipe != nullptr && pclose(pipe) == 0;
    unlink(path.c_str());
    return written && accepted;
}

/// An instruction (or several) on registers d, e (results) and a, b, c (sources), of as many bytes as named here; 0: not there.
/// Results of predicate type go through selp in `text`. Registers t0 … t3 (.b16), u0 … u3 (.b32), v0 … v3 (.b64) and p, q, r
/// (.pred) are free.
struct Operation {
    std::string text;
    uint8_t d = 4, a = 4, b = 0, c = 0;
};

/// A module with one kernel for each operation.
class OperationModule {
public:
    /// `suffix`: of the architecture for ptxas, where it wants sm_120a for what the software GPU runs for sm_120.
    OperationModule(std::vector<Operation> operations, const std::string& arch = "sm_80", const std::string& version = "8.0",
                    const std::string& suffix = "")
        : m_operations(std::move(operations)) {
        std::string kernels, messages;
        for (size_t i = 0; i < m_operations.size(); ++i) kernels += kernel(m_operations[i], i);
        auto text = [&](const std::string& target) {
            return ".version " + version + "\n.target " + target + "\n.address_size 64\n" + kernels;
        };
        EXPECT_TRUE(ptxas_accepts(text(arch + suffix), arch + suffix, messages)) << messages;
        m_module = m_device.load(text(arch));
    }

    size_t size() const { return m_operations.size(); }
    const Operation& operator[](size_t i) const { return m_operations[i]; }

    /// Runs operation i on every index of the arrays (those that it does not have may be empty).
    template <typename D, typename A, typename B = uint32_t, typename C = uint32_t>
    std::vector<D> run(size_t i, const std::vector<A>& a, const std::vector<B>& b = {}, const std::vector<C>& c = {}) {
        const Operation& operation = m_operations[i];
        EXPECT_EQ(operation.d, sizeof(D)) << operation.text;
        auto n = uint32_t(a.size());
        uint64_t da = m_device.upload(a), db = b.empty() ? 0 : m_device.upload(b), dc = c.empty() ? 0 : m_device.upload(c);
        uint64_t dd = m_device.allocate(n * sizeof(D));
        if (m_module == nullptr) return std::vector<D>(n);
        Fault fault =
            m_device.launch(*m_module, "k" + std::to_string(i), {.grid = {(n + 127) / 128}, .block = {128}}, da, db, dc, dd, n);
        EXPECT_EQ(fault.cu_result, 0) << operation.text << ": " << fault.text;
        return m_device.download<D>(dd, n);
    }

    Device& device() { return m_device; }

private:
    static std::string bits(uint8_t bytes) { return ".b" + std::to_string(8 * bytes); }
    static std::string load(char name, uint8_t bytes) {
        if (bytes == 0) return {};
        std::string n(1, name), size = std::to_string(bytes);
        return "  ld.param.u64 %rd1, [p" + n + "];\n  mad.wide.u32 %rd1, %r1, " + size + ", %rd1;\n  ld.global" + bits(bytes) +
               " " + n + ", [%rd1];\n";
    }
    static std::string kernel(const Operation& o, size_t number) {
        std::string text = ".visible .entry k" + std::to_string(number) +
                           "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 n) {\n"
                           "  .reg .b32 %r<5>;\n  .reg .b64 %rd<3>;\n  .reg .pred %out, p, q, r;\n"
                           "  .reg .b16 t<4>;\n  .reg .b32 u<4>;\n  .reg .b64 v<4>;\n";
        for (auto [name, bytes] : {std::pair{'d', o.d}, {'a', o.a}, {'b', o.b}, {'c', o.c}}) {
            if (bytes != 0) text += "  .reg " + bits(bytes) + " " + name + ";\n";
        }
        text +=
            "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n  mad.lo.u32 %r1, %r1, %r2, %r3;\n"
            "  ld.param.u32 %r2, [n];\n  setp.ge.u32 %out, %r1, %r2;\n  @%out bra done;\n";
        text += load('a', o.a) + load('b', o.b) + load('c', o.c) + "  " + o.text + "\n";
        text += "  ld.param.u64 %rd1, [pd];\n  mad.wide.u32 %rd1, %r1, " + std::to_string(o.d) + ", %rd1;\n  st.global" +
                bits(o.d) + " [%rd1], d;\ndone:\n  ret;\n}\n";
        return text;
    }

    std::vector<Operation> m_operations;
    Device m_device;
    std::shared_ptr<Module> m_module;
};

}  // namespace warpline::softgpu::exec::test
