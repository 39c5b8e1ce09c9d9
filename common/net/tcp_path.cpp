// What the kernel measures of a connection: linux/tcp.h knows more of it than libc's header, and cannot stand beside that one.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>

#include "common/net/socket.h"

namespace warpline::net {

std::optional<TcpPath> tcp_path(int fd) {
    // What this machine's memory has taken has arrived.
    if (peer_user(fd)) return TcpPath{};
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
    const socklen_t got = size;
    TcpPath path;
    // Probes: the peer's window is closed, and the kernel asks whether it has opened.
    if (info.tcpi_unacked != 0 || info.tcpi_probes != 0)
        path.unacknowledged_for = std::chrono::milliseconds(info.tcpi_last_ack_recv);
    path.round_trip_us = info.tcpi_rtt;
    path.congestion_window_bytes = uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss;
    path.repeated_segments = info.tcpi_total_retrans;
    if (got >= offsetof(tcp_info, tcpi_segs_out) + sizeof info.tcpi_segs_out) path.sent_segments = info.tcpi_segs_out;
    if (got >= offsetof(tcp_info, tcpi_segs_in) + sizeof info.tcpi_segs_in) path.received_segments = info.tcpi_segs_in;
    if (got >= offsetof(tcp_info, tcpi_rcv_ooopack) + sizeof info.tcpi_rcv_ooopack)
        path.disordered_segments = info.tcpi_rcv_ooopack;
    char control[16] = {};
    size = sizeof control;
    path.outlasts_losses =
        ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &size) == 0 && std::strncmp(control, "bbr", 3) == 0;
    if (got >= offsetof(tcp_info, tcpi_delivery_rate) + sizeof info.tcpi_delivery_rate)
        path.capacity_bytes = static_cast<uint64_t>(static_cast<double>(info.tcpi_delivery_rate) * info.tcpi_min_rtt * 1e-6);
    return path;
}

}  // namespace warpline::net
