// Tests of the answer to libcudart's validity check.
#include "cuda/abi/integrity.h"

#include <gtest/gtest.h>

namespace warpline::cuda::abi {
namespace {

TEST(Integrity, VersionsWithAFixedAnswer) {
    uint64_t answer[2] = {};
    IntegrityInput input;
    input.version = 13000;
    integrity_answer(input, answer);
    EXPECT_EQ(answer[0], 0x3341181C03CB675Cu);
    EXPECT_EQ(answer[1], 0x8ED383AA1F4CD1E8u);
    input.version = 13001;
    integrity_answer(input, answer);
    EXPECT_EQ(answer[0], 0x1841181C03CB675Cu);
    EXPECT_EQ(answer[1], 0x8ED383AA1F4CD1E8u);
}

// Expected values from another implementation. That libcudart accepts the answer is shown by every end-to-end test.
TEST(Integrity, CoversProcessTablesAndDevices) {
    DeviceIdentity devices[2];
    for (int i = 0; i < 16; i++) {
        devices[0].uuid.bytes[i] = static_cast<char>(i);
        devices[1].uuid.bytes[i] = static_cast<char>(16 + i);
    }
    devices[0].pci_domain = 1;
    devices[0].pci_bus = 2;
    devices[0].pci_device = 3;
    devices[1].pci_bus = 0x41;
    IntegrityInput input{13000, 13002, 4711, 0x89abcdef, 0x1000, 0x2000, 0x3000, 1700000000, devices};
    uint64_t answer[2] = {};
    integrity_answer(input, answer);
    EXPECT_EQ(answer[0], 0xdc0c6f7b73537dffu);
    EXPECT_EQ(answer[1], 0x1a9e9622bad2aaf2u);
    input.unix_seconds++;
    integrity_answer(input, answer);
    EXPECT_NE(answer[0], 0xdc0c6f7b73537dffu);
}

}  // namespace
}  // namespace warpline::cuda::abi
