// Fills of memory by the driver's interface: elements of one, two and four bytes, in a row and in rows, at once and in the
// order of a stream.
#include <cstring>
#include <functional>

#include "driver_calls.h"

static constexpr size_t k_pitch = 96, k_rows = 10, k_bytes = k_pitch * k_rows;

/// What memory becomes that holds `k_before` everywhere.
static constexpr unsigned char k_before = 0x5a;
static std::vector<unsigned char> filled(size_t first, size_t pitch, unsigned value, size_t element, size_t width,
                                         size_t rows) {
    std::vector<unsigned char> bytes(k_bytes, k_before);
    for (size_t row = 0; row < rows; ++row)
        for (size_t i = 0; i < width; ++i) std::memcpy(&bytes[first + row * pitch + i * element], &value, element);
    return bytes;
}

class Memory {
public:
    Memory() : m_bytes(k_bytes), m_gate(1) {
        DRIVER(cuStreamCreate(&m_held, CU_STREAM_NON_BLOCKING));
        DRIVER(cuStreamCreate(&m_opener, CU_STREAM_NON_BLOCKING));
    }
    ~Memory() {
        for (CUstream stream : {m_held, m_opener}) DRIVER(cuStreamDestroy(stream));
    }
    CUdeviceptr at(size_t first) { return reinterpret_cast<CUdeviceptr>(m_bytes.data()) + first; }

    void expect(const std::function<CUresult()>& fill, const std::vector<unsigned char>& wanted) {
        m_bytes.upload(std::vector<unsigned char>(k_bytes, k_before));
        DRIVER(fill());
        EXPECT(m_bytes.download() == wanted);
    }
    /// The same of a fill that waits for its stream: nothing has happened before that goes on.
    void expect_in_order(const std::function<CUresult(CUstream)>& fill, const std::vector<unsigned char>& wanted) {
        const std::vector<unsigned char> before(k_bytes, k_before);
        m_bytes.upload(before);
        m_gate.upload({0});
        const auto gate = reinterpret_cast<CUdeviceptr>(m_gate.data());
        DRIVER(cuStreamWaitValue32(m_held, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
        DRIVER(fill(m_held));
        std::vector<unsigned char> seen(k_bytes);
        DRIVER(cuMemcpyDtoHAsync(seen.data(), at(0), k_bytes, m_opener));
        DRIVER(cuStreamSynchronize(m_opener));
        EXPECT(seen == before);
        DRIVER(cuStreamWriteValue32(m_opener, gate, 1, 0));
        DRIVER(cuStreamSynchronize(m_held));
        EXPECT(m_bytes.download() == wanted);
    }

private:
    DeviceArray<unsigned char> m_bytes;
    DeviceArray<unsigned> m_gate;
    CUstream m_held = nullptr, m_opener = nullptr;
};

static void in_a_row(Memory& memory) {
    const auto bytes = filled(3, 0, 0xc1, 1, 70, 1), halves = filled(6, 0, 0xc1d2, 2, 70, 1),
               words = filled(8, 0, 0xc1d2e3f4, 4, 70, 1);
    memory.expect([&] { return cuMemsetD8(memory.at(3), 0xc1, 70); }, bytes);
    memory.expect([&] { return cuMemsetD16(memory.at(6), 0xc1d2, 70); }, halves);
    memory.expect([&] { return cuMemsetD32(memory.at(8), 0xc1d2e3f4, 70); }, words);
    memory.expect_in_order([&](CUstream s) { return cuMemsetD8Async(memory.at(3), 0xc1, 70, s); }, bytes);
    memory.expect_in_order([&](CUstream s) { return cuMemsetD16Async(memory.at(6), 0xc1d2, 70, s); }, halves);
    memory.expect_in_order([&](CUstream s) { return cuMemsetD32Async(memory.at(8), 0xc1d2e3f4, 70, s); }, words);
}

static void in_rows(Memory& memory) {
    const auto bytes = filled(5, k_pitch, 0x17, 1, 11, 7), halves = filled(10, k_pitch, 0x1728, 2, 11, 7);
    const auto words = filled(4, k_pitch, 0x17283940, 4, 11, 7);
    memory.expect([&] { return cuMemsetD2D8(memory.at(5), k_pitch, 0x17, 11, 7); }, bytes);
    memory.expect([&] { return cuMemsetD2D16(memory.at(10), k_pitch, 0x1728, 11, 7); }, halves);
    memory.expect([&] { return cuMemsetD2D32(memory.at(4), k_pitch, 0x17283940, 11, 7); }, words);
    memory.expect_in_order([&](CUstream s) { return cuMemsetD2D8Async(memory.at(5), k_pitch, 0x17, 11, 7, s); }, bytes);
    memory.expect_in_order([&](CUstream s) { return cuMemsetD2D16Async(memory.at(10), k_pitch, 0x1728, 11, 7, s); }, halves);
    memory.expect_in_order([&](CUstream s) { return cuMemsetD2D32Async(memory.at(4), k_pitch, 0x17283940, 11, 7, s); }, words);
}

static void refusals(Memory& memory) {
    const std::vector<unsigned char> untouched(k_bytes, k_before);
    memory.expect(
        [&] {
            REFUSED(cuMemsetD16(memory.at(1), 1, 4), CUDA_ERROR_INVALID_VALUE);
            REFUSED(cuMemsetD16Async(memory.at(1), 1, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
            REFUSED(cuMemsetD2D16(memory.at(1), k_pitch, 1, 4, 2), CUDA_ERROR_INVALID_VALUE);
            REFUSED(cuMemsetD2D16Async(memory.at(0), k_pitch + 1, 1, 4, 2, nullptr), CUDA_ERROR_INVALID_VALUE);
            REFUSED(cuMemsetD2D32Async(memory.at(2), k_pitch, 1, 4, 2, nullptr), CUDA_ERROR_INVALID_VALUE);
            return cuMemsetD2D8(memory.at(0), k_pitch, 1, 0, 7);  // rows of nothing
        },
        untouched);
}

int main() {
    CHECK(cudaFree(nullptr));
    Memory memory;
    in_a_row(memory);
    in_rows(memory);
    refusals(memory);
    return passed("fills");
}
