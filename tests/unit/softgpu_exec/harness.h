// The engine in a test: loads PTX, launches kernels, reads memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "softgpu/exec/api.h"

/// A device with memory and kernels, for tests of the engine.
namespace warpline::softgpu::exec::test {

inline std::string read_kernel(const std::string& name) {
    std::ifstream file(std::string(WL_PTX_KERNELS) + "/" + name);
    EXPECT_TRUE(file.good()) << name;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// The head that every test text needs.
inline std::string with_head(const std::string& body) { return ".version 8.0\n.target sm_80\n.address_size 64\n" + body; }

class Device {
public:
    explicit Device(EngineOptions options = {}) : m_engine(create_engine(options)) {
        m_engine->set_printf_sink([this](std::string_view text) { m_printed.append(text); });
    }
    ~Device() { free_all(); }

    void free_all() {
        for (auto [address, size] : m_allocations) release(address, size);
        m_allocations.clear();
    }

    Engine& engine() { return *m_engine; }
    const std::string& printed() const { return m_printed; }

    std::shared_ptr<Module> load(const std::string& ptx) {
        std::string_view text = ptx;
        ModuleError error;
        auto module = m_engine->load({&text, 1}, error);
        EXPECT_NE(module, nullptr) << error.cu_result << " " << error.log;
        return module;
    }

    /// Memory of exactly size_bytes bytes.
    uint64_t allocate(uint64_t size_bytes) {
        auto address = m_engine->memory().reserve(size_bytes, 4096, 0);
        EXPECT_TRUE(address.ok());
        EXPECT_TRUE(m_engine->memory().map(*address, size_bytes).ok());
        EXPECT_TRUE(m_engine->memory().add_range(*address, size_bytes).ok());
        m_allocations.emplace_back(*address, size_bytes);
        return *address;
    }

    template <typename T>
    uint64_t upload(const std::vector<T>& values) {
        uint64_t address = allocate(values.size() * sizeof(T));
        std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
        return address;
    }
    template <typename T>
    std::vector<T> download(uint64_t address, size_t count) {
        std::vector<T> values(count);
        std::memcpy(values.data(), reinterpret_cast<const void*>(address), count * sizeof(T));
        return values;
    }

    struct Shape {
        Dim3 grid{1, 1, 1}, block{1, 1, 1};
        uint32_t dynamic_shared = 0;
        bool cooperative = false;
    };

    template <typename... Args>
    Fault launch(Module& module, std::string_view kernel, Shape shape, Args... args) {
        auto function = module.function(kernel);
        EXPECT_NE(function, nullptr) << kernel;
        if (function == nullptr) return {1, "no such kernel"};
        std::vector<std::byte> params(function->info().param_bytes);
        size_t number = 0;
        [[maybe_unused]] auto put = [&](const auto& value) {
            const auto& param = function->info().params.at(number++);
            EXPECT_EQ(param.size_bytes, sizeof(value)) << "parameter " << number;
            std::memcpy(params.data() + param.offset_bytes, &value, sizeof(value));
        };
        (put(args), ...);
        Launch launch;
        launch.function = function.get();
        launch.grid = shape.grid;
        launch.block = shape.block;
        launch.cluster = {1, 1, 1};
        launch.dynamic_shared_bytes = shape.dynamic_shared;
        launch.cooperative = shape.cooperative;
        launch.params = params;
        return m_engine->launch(launch);
    }

private:
    void release(uint64_t address, uint64_t size_bytes) {
        (void)m_engine->memory().remove_range(address, size_bytes);
        (void)m_engine->memory().unmap(address, size_bytes);
        (void)m_engine->memory().release(address, size_bytes);
    }

    std::unique_ptr<Engine> m_engine;
    std::vector<std::pair<uint64_t, uint64_t>> m_allocations;
    std::string m_printed;
};

#define EXPECT_RUNS(expression)                            \
    do {                                                   \
        ::warpline::softgpu::exec::Fault f = (expression); \
        EXPECT_EQ(f.cu_result, 0) << f.text;               \
    } while (false)

}  // namespace warpline::softgpu::exec::test
