// The driver under test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/abi/cuda_types.h"

/// The library under test: loaded once, never unloaded.
namespace softgpu_test {

/// The address of an exported symbol. Ends the test program if there is none.
void* symbol(const char* name);

/// cuInit and a context that is current; its stack of contexts is put back at the end.
class DriverTest : public testing::Test {
protected:
    void SetUp() override;
    void TearDown() override;
    CUcontext context() const { return m_context; }

private:
    CUcontext m_context = nullptr;
};

/// A module of the kernels below, in the current context.
CUmodule load_kernels();
CUfunction kernel(CUmodule module, const char* name);
/// store(address, value), one thread.
CUresult launch_store(CUmodule module, CUdeviceptr address, uint32_t value, CUstream stream = nullptr);
/// wait_for(address): runs until the 32-bit word there is not 0.
CUresult launch_wait(CUmodule module, CUdeviceptr address, CUstream stream = nullptr);

/// Kernels:
///   store(u64 address, u32 value)           *address = value
///   fill(u64 address, u32 value, u32 n)     address[i] = value + i for the n first threads of the grid
///   add(u64 address, u32 value)             *address += value, atomically
///   wait_for(u64 address)                   until *address != 0
///   trap()
///   bounded()                               .maxntid 64
///   shared_user()                           4096 bytes of static, and dynamic shared memory
extern const char* const k_kernels_ptx;

}  // namespace softgpu_test

/// A function of the library under test.
#define CU(name) (reinterpret_cast<decltype(&::name)>(softgpu_test::symbol(#name)))
#define EXPECT_CU(call) EXPECT_EQ(call, CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ(call, CUDA_SUCCESS)
