// What is remembered of advice about managed memory, and told of it again (A7).
#include "cuda/abi/memory_advice.h"

#include <gtest/gtest.h>

#include <array>

namespace warpline::cuda::abi {
namespace {

constexpr uint64_t k_at = 0x300000000000;

constexpr CUmemLocation k_device_0{CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr CUmemLocation k_device_1{CU_MEM_LOCATION_TYPE_DEVICE, 1};

int value(const MemoryAdvice& advice, CUmem_range_attribute attribute, uint64_t address, uint64_t bytes) {
    int out = -99;
    EXPECT_EQ(advice.read(&out, sizeof out, attribute, address, bytes), CUDA_SUCCESS);
    return out;
}

bool read_mostly(const MemoryAdvice& advice, uint64_t address, uint64_t bytes) {
    return value(advice, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, bytes) == 1;
}

using Accessors = std::array<int, 3>;

Accessors accessors(const MemoryAdvice& advice, uint64_t address, uint64_t bytes) {
    Accessors out{};
    EXPECT_EQ(advice.read(out.data(), sizeof out, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, address, bytes), CUDA_SUCCESS);
    return out;
}

TEST(MemoryAdvice, IsRememberedByWholePages_A7) {
    MemoryAdvice advice;
    EXPECT_EQ(advice.advise(k_at + 5000, 10, CU_MEM_ADVISE_SET_READ_MOSTLY, {}), CUDA_SUCCESS);
    EXPECT_FALSE(read_mostly(advice, k_at, 4096));
    EXPECT_TRUE(read_mostly(advice, k_at + 4096, 4096));
    EXPECT_FALSE(read_mostly(advice, k_at + 2 * 4096, 4096));
    EXPECT_FALSE(read_mostly(advice, k_at + 4096, 4097));
}

TEST(MemoryAdvice, SplitsWhatWasSaidBefore_A7) {
    MemoryAdvice advice;
    EXPECT_EQ(advice.advise(k_at, 0x30000, CU_MEM_ADVISE_SET_READ_MOSTLY, {}), CUDA_SUCCESS);
    EXPECT_EQ(advice.advise(k_at + 0x10000, 0x10000, CU_MEM_ADVISE_UNSET_READ_MOSTLY, {}), CUDA_SUCCESS);
    EXPECT_TRUE(read_mostly(advice, k_at, 0x10000));
    EXPECT_FALSE(read_mostly(advice, k_at + 0x10000, 0x10000));
    EXPECT_TRUE(read_mostly(advice, k_at + 0x20000, 0x10000));
    advice.forget(k_at + 0x8000, 0x8000);
    EXPECT_TRUE(read_mostly(advice, k_at, 0x8000));
    EXPECT_FALSE(read_mostly(advice, k_at + 0x8000, 1));
}

TEST(MemoryAdvice, NamesThoseWhoAccessAllOfARange_A7) {
    MemoryAdvice advice;
    EXPECT_EQ(advice.advise(k_at, 4 * 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, k_device_0), CUDA_SUCCESS);
    EXPECT_EQ(advice.advise(k_at, 4 * 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, {CU_MEM_LOCATION_TYPE_HOST, 0}), CUDA_SUCCESS);
    EXPECT_EQ(advice.advise(k_at + 4096, 4096, CU_MEM_ADVISE_UNSET_ACCESSED_BY, k_device_0), CUDA_SUCCESS);
    EXPECT_EQ(accessors(advice, k_at, 4096), (Accessors{CU_DEVICE_CPU, 0, CU_DEVICE_INVALID}));
    EXPECT_EQ(accessors(advice, k_at, 2 * 4096), (Accessors{CU_DEVICE_CPU, CU_DEVICE_INVALID, CU_DEVICE_INVALID}));
    advice.forget(k_at, 2 * 4096);
    EXPECT_EQ(accessors(advice, k_at, 4096), (Accessors{CU_DEVICE_INVALID, CU_DEVICE_INVALID, CU_DEVICE_INVALID}));
    EXPECT_EQ(accessors(advice, k_at + 2 * 4096, 4096), (Accessors{CU_DEVICE_CPU, 0, CU_DEVICE_INVALID}));
}

TEST(MemoryAdvice, TellsOfPlacesInBothForms_A7) {
    MemoryAdvice advice;
    EXPECT_EQ(value(advice, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, k_at, 4096), CU_DEVICE_INVALID);
    EXPECT_EQ(advice.advise(k_at, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location_of(CU_DEVICE_CPU)), CUDA_SUCCESS);
    EXPECT_EQ(value(advice, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, k_at, 4096), CU_DEVICE_CPU);
    EXPECT_EQ(value(advice, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, k_at, 4096), CU_MEM_LOCATION_TYPE_HOST);
    advice.note_prefetch(k_at, 2 * 4096, k_device_1);
    EXPECT_EQ(value(advice, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, k_at, 2 * 4096), 1);
    EXPECT_EQ(value(advice, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, k_at, 4096), 1);
    EXPECT_EQ(value(advice, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, k_at, 3 * 4096), CU_DEVICE_INVALID);
}

TEST(MemoryAdvice, RefusesWhatThereIsNot_A7) {
    MemoryAdvice advice;
    EXPECT_EQ(advice.advise(k_at, 4096, static_cast<CUmem_advise>(77), {}), CUDA_ERROR_INVALID_VALUE);
    int64_t wide = 0;
    EXPECT_EQ(advice.read(&wide, sizeof wide, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, k_at, 4096), CUDA_ERROR_INVALID_VALUE);
    const auto one = [](int ordinal) { return ordinal == 0; };
    EXPECT_EQ(check_location(k_device_0, one), CUDA_SUCCESS);
    EXPECT_EQ(check_location(k_device_1, one), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(check_location({CU_MEM_LOCATION_TYPE_INVALID, 0}, one), CUDA_ERROR_INVALID_VALUE);
}

TEST(PrefetchBatch, GivesEachRangeTheLocationThatBeganLast_A7) {
    const CUdeviceptr addresses[] = {10, 20, 30};
    const size_t sizes[] = {1, 2, 3}, first_of[] = {0, 2};
    const CUmemLocation locations[] = {k_device_1, k_device_0};
    PrefetchBatch batch{addresses, sizes, 3, locations, first_of, 2};
    std::vector<int> places;
    const auto note = [&](CUdeviceptr, size_t, const CUmemLocation& location) {
        places.push_back(location.id);
        return CUDA_SUCCESS;
    };
    EXPECT_EQ(batch.each(note), CUDA_SUCCESS);
    EXPECT_EQ(places, (std::vector<int>{1, 1, 0}));
    batch.location_count = 4;
    EXPECT_EQ(batch.each(note), CUDA_ERROR_INVALID_VALUE);
    batch.location_count = 0;
    EXPECT_EQ(batch.each(note), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace warpline::cuda::abi
