// The inventory of a machine, as sessions are told it and as workers hand it on.
#include "server/worker/inventory_record.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "protocol/codec/message.h"
#include "server/control/driver_text.h"
#include "server/objects/contexts.h"

namespace warpline::server {

namespace {

void fill_attributes(capnp::List<wire::Attribute>::Builder list, const std::vector<DeviceSnapshot::Attribute>& attributes) {
    for (unsigned i = 0; i < list.size(); ++i) {
        list[i].setId(attributes[i].id);
        list[i].setValue(attributes[i].value);
    }
}

}  // namespace

void write_device(wire::Device::Builder out, const DeviceSnapshot& device) {
    out.setName(device.name);
    out.setTotalMemoryBytes(device.total_bytes);
    out.setUuid(protocol::data_of(as_bytes(device.uuid.bytes, sizeof device.uuid.bytes)));
    out.setComputeMajor(device.compute_major);
    out.setComputeMinor(device.compute_minor);
    fill_attributes(out.initAttributes(static_cast<unsigned>(device.attributes.size())), device.attributes);
    out.setPciBusId(device.pci_bus_id);
    auto limits = out.initLimits(static_cast<unsigned>(device.limits.size()));
    for (unsigned i = 0; i < limits.size(); ++i) {
        limits[i].setId(device.limits[i].id);
        limits[i].setResult(device.limits[i].result);
        limits[i].setValue(device.limits[i].value);
    }
    out.setLeastPriority(device.least_priority);
    out.setGreatestPriority(device.greatest_priority);
    auto peers = out.initPeers(static_cast<unsigned>(device.peers.size()));
    for (unsigned i = 0; i < peers.size(); ++i) {
        peers[i].setDevice(device.peers[i].device);
        peers[i].setCanAccess(device.peers[i].can_access);
        fill_attributes(peers[i].initAttributes(static_cast<unsigned>(device.peers[i].attributes.size())),
                        device.peers[i].attributes);
    }
    out.setPrimaryContext(Contexts::primary_token(device.device));
    out.setFreeMemoryBytes(device.free_bytes);
}

namespace {

/// More than 64 devices with all that a driver tells of them.
constexpr size_t k_max_record_bytes = size_t{4} << 20;

Error io_error(const char* what) { return Error{Code::io, what, static_cast<uint32_t>(errno)}; }

void read_uuid(capnp::Data::Reader from, CUuuid& uuid) {
    std::memcpy(uuid.bytes, from.begin(), std::min<size_t>(from.size(), sizeof uuid.bytes));
}

std::vector<DeviceSnapshot::Attribute> read_attributes(capnp::List<wire::Attribute>::Reader list) {
    std::vector<DeviceSnapshot::Attribute> attributes;
    for (const auto attribute : list) attributes.push_back({attribute.getId(), attribute.getValue()});
    return attributes;
}

DeviceSnapshot read_device(wire::Device::Reader from) {
    DeviceSnapshot device;
    device.name = from.getName().cStr();
    device.total_bytes = from.getTotalMemoryBytes();
    device.free_bytes = from.getFreeMemoryBytes();
    read_uuid(from.getUuid(), device.uuid);
    device.compute_major = from.getComputeMajor();
    device.compute_minor = from.getComputeMinor();
    device.attributes = read_attributes(from.getAttributes());
    device.pci_bus_id = from.getPciBusId().cStr();
    for (const auto limit : from.getLimits()) device.limits.push_back({limit.getId(), limit.getResult(), limit.getValue()});
    device.least_priority = from.getLeastPriority();
    device.greatest_priority = from.getGreatestPriority();
    for (const auto peer : from.getPeers())
        device.peers.push_back({peer.getDevice(), peer.getCanAccess(), read_attributes(peer.getAttributes())});
    return device;
}

}  // namespace

Result<int> write_inventory(const std::vector<DeviceSnapshot>& devices) {
    const protocol::Buffer record = WL_TRY(protocol::build_message<wire::HelloReply>([&](wire::HelloReply::Builder inventory) {
        auto list = inventory.initDevices(static_cast<unsigned>(devices.size()));
        for (unsigned i = 0; i < list.size(); ++i) write_device(list[i], devices[i]);
    }));
    const int fd = memfd_create("warpline-inventory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return io_error("memfd_create failed");
    write_text(fd, record.view());
    struct stat status {};
    if (fstat(fd, &status) == 0 && static_cast<size_t>(status.st_size) == record.view().size()) return fd;
    close(fd);
    return io_error("the inventory cannot be written");
}

Result<std::vector<DeviceSnapshot>> read_inventory(int fd) {
    std::vector<DeviceSnapshot> devices;
    struct stat status {};
    if (fstat(fd, &status) != 0) return io_error("the inventory cannot be read");
    const auto size = static_cast<size_t>(status.st_size);
    if (!S_ISREG(status.st_mode) || size == 0) return devices;
    if (size > k_max_record_bytes) return Error{Code::malformed, "the inventory is too long"};
    protocol::Buffer record;
    if (!record.resize(size)) return Error{Code::alloc_failed, "no memory for the inventory"};
    if (pread(fd, record.data(), size, 0) != static_cast<ssize_t>(size)) return io_error("the inventory cannot be read");
    WL_TRY(protocol::read_message<wire::HelloReply>(record.view(), [&](wire::HelloReply::Reader inventory) -> Result<void> {
        for (const auto device : inventory.getDevices()) devices.push_back(read_device(device));
        return {};
    }));
    for (size_t i = 0; i < devices.size(); ++i) devices[i].device = devices[i].driver_device = static_cast<CUdevice>(i);
    return devices;
}

}  // namespace warpline::server
