// Which of the machine's devices this process has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/config/config.h"

namespace warpline::softgpu::driver {

/// The devices of the machine that this process sees, in its order: CUDA_VISIBLE_DEVICES. A slot is a device's number in the
/// machine; UUID and PCI bus id follow from it. Read once. Empty: none.
const std::vector<uint32_t>& visible_slots(const Config& config);

CUuuid uuid_of_slot(uint32_t slot, bool mig);
std::string pci_bus_id_of_slot(uint32_t slot);

}  // namespace warpline::softgpu::driver
