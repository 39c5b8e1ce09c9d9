// Status and its request as single frames.
#include "protocol/session/status.h"

#include <algorithm>

#include "protocol/schema/envelope.capnp.h"

namespace warpline::protocol {

namespace {

constexpr size_t k_max_text_bytes = 256;
/// More than a machine has.
constexpr uint32_t k_max_devices_told = 256;

std::string text_of(capnp::Text::Reader text) { return {text.cStr(), std::min<size_t>(text.size(), k_max_text_bytes)}; }

void write_sheet(const DeviceSheet& sheet, wire::DeviceSheet::Builder out) {
    out.setName(sheet.name.c_str());
    out.setUuid({sheet.uuid.data(), sheet.uuid.size()});
    out.setPciBusId(sheet.pci_bus_id.c_str());
    out.setTotalBytes(sheet.total_bytes);
    out.setComputeMajor(sheet.compute_major);
    out.setComputeMinor(sheet.compute_minor);
    out.setMultiprocessors(sheet.multiprocessors);
    out.setAnswers({reinterpret_cast<const kj::byte*>(sheet.answers.data()), sheet.answers.size()});
    auto processes = out.initProcesses(static_cast<uint32_t>(sheet.processes.size()));
    for (uint32_t i = 0; i < processes.size(); ++i) {
        processes[i].setHost(sheet.processes[i].host.c_str());
        processes[i].setPid(sheet.processes[i].pid);
        processes[i].setBytes(sheet.processes[i].bytes);
    }
}

DeviceSheet sheet_of(wire::DeviceSheet::Reader in) {
    DeviceSheet sheet;
    sheet.name = text_of(in.getName());
    const auto uuid = in.getUuid();
    std::copy_n(uuid.begin(), std::min(uuid.size(), sheet.uuid.size()), sheet.uuid.begin());
    sheet.pci_bus_id = text_of(in.getPciBusId());
    sheet.total_bytes = in.getTotalBytes();
    sheet.compute_major = in.getComputeMajor();
    sheet.compute_minor = in.getComputeMinor();
    sheet.multiprocessors = in.getMultiprocessors();
    const auto answers = in.getAnswers();
    const auto* bytes = reinterpret_cast<const std::byte*>(answers.begin());
    sheet.answers.assign(bytes, bytes + answers.size());
    for (const auto process : in.getProcesses())
        sheet.processes.push_back({text_of(process.getHost()), process.getPid(), process.getBytes()});
    return sheet;
}

}  // namespace

Result<Bytes> encode_status_request(const StatusRequest& request) {
    return encode_single_frame<wire::StatusRequest>(FrameKind::status, [&](wire::StatusRequest::Builder out) {
        out.setClientVersion(request.client_version.c_str());
        out.setClaimBelow(request.claim_below);
        out.setWantsLoad(request.wants_load);
        out.setWantsSheets(request.wants_sheets);
    });
}

Result<Bytes> encode_status(const ServerStatus& status) {
    return encode_single_frame<wire::Status>(FrameKind::status, [&](wire::Status::Builder out) {
        out.setServerName(status.server_name.c_str());
        out.setServerVersion(status.server_version.c_str());
        out.setSessions(status.sessions);
        out.setMaxSessions(status.max_sessions);
        out.setWorkersReady(status.workers_ready);
        out.setDraining(status.draining);
        out.setDeviceCount(status.device_count);
        out.setDriverVersion(status.driver_version);
        out.setDriverKind(status.software_driver ? wire::DriverKind::SOFTWARE : wire::DriverKind::NVIDIA);
        out.setClaimed(status.claimed);
        auto devices = out.initDevices(static_cast<uint32_t>(status.devices.size()));
        for (uint32_t i = 0; i < devices.size(); ++i) {
            const DeviceLoad& load = status.devices[i];
            devices[i].setUtilisationPercent(load.utilisation_percent ? static_cast<int16_t>(*load.utilisation_percent) : -1);
            devices[i].setTotalBytes(load.total_bytes);
            devices[i].setFreeBytes(load.free_bytes);
        }
        auto sheets = out.initSheets(static_cast<uint32_t>(status.sheets.size()));
        for (uint32_t i = 0; i < sheets.size(); ++i) write_sheet(status.sheets[i], sheets[i]);
    });
}

Result<StatusRequest> decode_status_request(const Frame& frame) {
    return read_message<wire::StatusRequest>(frame.body.view(), [&](wire::StatusRequest::Reader in) -> Result<StatusRequest> {
        return StatusRequest{text_of(in.getClientVersion()), in.getClaimBelow(), in.getWantsLoad(), in.getWantsSheets()};
    });
}

Result<ServerStatus> decode_status(const Frame& frame) {
    return read_message<wire::Status>(frame.body.view(), [&](wire::Status::Reader in) -> Result<ServerStatus> {
        ServerStatus status;
        status.server_name = text_of(in.getServerName());
        status.server_version = text_of(in.getServerVersion());
        status.sessions = in.getSessions();
        status.max_sessions = in.getMaxSessions();
        status.workers_ready = in.getWorkersReady();
        status.draining = in.getDraining();
        status.device_count = in.getDeviceCount();
        status.driver_version = in.getDriverVersion();
        status.software_driver = in.getDriverKind() == wire::DriverKind::SOFTWARE;
        status.claimed = in.getClaimed();
        const auto devices = in.getDevices();
        for (uint32_t i = 0; i < std::min(devices.size(), k_max_devices_told); ++i) {
            DeviceLoad load{std::nullopt, devices[i].getTotalBytes(), devices[i].getFreeBytes()};
            const int percent = devices[i].getUtilisationPercent();
            if (percent >= 0) load.utilisation_percent = static_cast<uint32_t>(percent);
            status.devices.push_back(load);
        }
        const auto sheets = in.getSheets();
        for (uint32_t i = 0; i < std::min(sheets.size(), k_max_devices_told); ++i) status.sheets.push_back(sheet_of(sheets[i]));
        return status;
    });
}

}  // namespace warpline::protocol
