// The lines that tell an administrator what this machine offers.
#include "server/daemon/gpu_table.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/log/log.h"
#include "cuda/abi/visible_devices.h"

namespace warpline::server {

namespace {

std::string uuid_text(const DeviceRow& device) {
    CUuuid uuid;
    std::memcpy(uuid.bytes, device.uuid, sizeof uuid.bytes);
    return cuda::abi::device_name_of(uuid, get_text(device.name));
}

}  // namespace

std::string gpu_table(const ReadyMessage& ready) {
    using Row = std::vector<std::string>;
    std::vector<Row> rows{{"GPU", "Model", "Memory", "Compute", "SMs", "PCI bus", "UUID"}};
    for (uint32_t i = 0; i < std::min<uint32_t>(ready.device_count, k_max_devices); ++i) {
        const DeviceRow& device = ready.devices[i];
        rows.push_back({std::to_string(device.ordinal), get_text(device.name),
                        log::format("{:.1f} GiB", static_cast<double>(device.total_bytes) / (1 << 30)),
                        log::format("{}.{}", device.compute_major, device.compute_minor),
                        std::to_string(device.multiprocessors), get_text(device.pci_bus_id), uuid_text(device)});
    }
    std::vector<size_t> widths(rows.front().size(), 0);
    for (const Row& row : rows) {
        for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string text = log::format("Driver: {}, CUDA {}.{}, {}\n", ready.software != 0 ? "software GPU" : "NVIDIA",
                                   ready.driver_version / 1000, ready.driver_version % 1000 / 10, get_text(ready.driver_path));
    for (const Row& row : rows) {
        std::string line;
        for (size_t c = 0; c < row.size(); ++c) {
            line += row[c];
            if (c + 1 < row.size()) line.append(widths[c] - row[c].size() + 2, ' ');
        }
        text += line + "\n";
    }
    return text;
}

}  // namespace warpline::server
