// TUN interfaces: made, given addresses, switched on.
#include "bench/link/tun.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace warpline::bench {

namespace {

sockaddr internet_address(const std::string& text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    (void)::inet_pton(AF_INET, text.c_str(), &address.sin_addr);
    sockaddr plain{};
    std::memcpy(&plain, &address, sizeof plain);
    return plain;
}

Error failed(const char* what, std::string& why) {
    const int error = errno;
    why = std::string(what) + ": " + std::strerror(error);
    return Error{error == EPERM || error == EACCES ? Code::denied : Code::io, "no network interface",
                 static_cast<uint32_t>(error)};
}

}  // namespace

Result<net::Socket> open_tun(const std::string& address, const std::string& peer, int mtu, std::string& why) {
    net::Socket tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!tun.valid()) return failed("/dev/net/tun", why);
    ifreq request{};
    std::strcpy(request.ifr_name, "wlpath%d");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (::ioctl(tun.fd(), TUNSETIFF, &request) != 0) return failed("a TUN interface", why);
    const net::Socket control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto set = [&](unsigned long what) { return ::ioctl(control.fd(), what, &request) == 0; };
    request.ifr_addr = internet_address(address);
    if (!set(SIOCSIFADDR)) return failed("the address of a TUN interface", why);
    request.ifr_dstaddr = internet_address(peer);
    if (!set(SIOCSIFDSTADDR)) return failed("the other address of a TUN interface", why);
    request.ifr_mtu = mtu;
    if (!set(SIOCSIFMTU)) return failed("the MTU of a TUN interface", why);
    request.ifr_qlen = 100;  // where the kernel waits is no part of the path
    if (!set(SIOCSIFTXQLEN)) return failed("the queue of a TUN interface", why);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (!set(SIOCSIFFLAGS)) return failed("switching a TUN interface on", why);
    return tun;
}

}  // namespace warpline::bench
