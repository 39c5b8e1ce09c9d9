"""What of the system calls that a confined worker is refused a driver makes all the same: a filter that reports instead of refusing
(SECCOMP_RET_USER_NOTIF, Linux 5.5) is put on a process that then does what a worker does."""

import array
import ctypes
import fcntl
import os
import pathlib
import re
import socket
import struct
import threading

from device import Driver, NotHere

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "server" / "worker" / "confinement.cpp"
SYSCALL_SECCOMP, PR_SET_NO_NEW_PRIVS = 317, 38
SET_MODE_FILTER, NEW_LISTENER = 1, 1 << 3
RET_ALLOW, RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101
FLAG_CONTINUE = 1

# x86-64's numbers of the calls that server/control/confinement.cpp denies outright.
NUMBERS = {
    "execve": 59, "execveat": 322, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "bind": 49, "listen": 50, "accept": 43, "accept4": 288, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "setns": 308, "unshare": 272, "reboot": 169, "swapon": 167, "swapoff": 168, "init_module": 175, "finit_module": 313,
    "delete_module": 176, "kexec_load": 246, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "add_key": 248, "request_key": 249,
    "keyctl": 250, "open_by_handle_at": 304, "quotactl": 179, "acct": 163, "settimeofday": 164, "clock_settime": 227,
    "sethostname": 170, "setdomainname": 171}


def denied():
    """The names that the server's filter lists, where its source is at hand: the table above must know them all."""
    if not SOURCE.exists():
        return sorted(NUMBERS)
    text = SOURCE.read_text()
    return sorted(set(re.findall(r"SYS_(\w+),", text[text.index("k_denied[]"):text.index("};")])))


def program(numbers):
    """The filter: load the number, and report the listed ones."""
    def step(code, true, false, value):
        return struct.pack("HBBI", code, true, false, value)
    steps = [step(0x20, 0, 0, 0)]
    for number in numbers:
        steps += [step(0x15, 0, 1, number), step(0x06, 0, 0, RET_USER_NOTIF)]
    return b"".join([*steps, step(0x06, 0, 0, RET_ALLOW)])


def install(filter_bytes):
    """Puts the filter on this process; returns the descriptor that reports."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise NotHere("no-new-privileges is refused")
    code = ctypes.create_string_buffer(filter_bytes, len(filter_bytes))
    argument = struct.pack("HxxxxxxQ", len(filter_bytes) // 8, ctypes.addressof(code))
    listener = libc.syscall(SYSCALL_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, argument)
    if listener < 0:
        raise NotHere(f"this kernel or container refuses a reporting filter (errno {ctypes.get_errno()})")
    return listener


def report(listener, seen):
    """Writes down each call that is reported, and lets it go on."""
    names = {number: name for name, number in NUMBERS.items()}
    while True:
        notification = bytearray(80)
        try:
            fcntl.ioctl(listener, NOTIF_RECV, notification)
            call, = struct.unpack_from("i", notification, 16)
            seen.append(names.get(call, str(call)))
            fcntl.ioctl(listener, NOTIF_SEND, bytearray(struct.pack("QqiI", struct.unpack_from("Q", notification)[0], 0, 0, FLAG_CONTINUE)))
        except OSError:
            return


def work(driver):
    """What a worker does after it is confined."""
    driver.kernels()
    driver.memory(1 << 20)
    for device in range(driver.devices()):
        driver.context(device)
        driver.call("cuCtxSynchronize")


def calls_outside_the_filter(_):
    """The system calls outside the worker's filter while a driver compiles PTX and opens all devices, after the first context."""
    if os.uname().machine != "x86_64":
        raise NotHere("the table of numbers is of x86-64")
    unknown = [name for name in denied() if name not in NUMBERS]
    if unknown:
        raise NotHere(f"confinement.py does not know {', '.join(unknown)}")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            driver = Driver()
            driver.context()
            try:
                listener = install(program([NUMBERS[name] for name in denied()]))
            except NotHere as refused:
                theirs.send(str(refused).encode())
                os._exit(0)
            theirs.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
            os.close(listener)
            work(driver)
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    words, ancillary, _, _ = ours.recvmsg(1024, socket.CMSG_LEN(4))
    if not ancillary:
        os.waitpid(child, 0)
        raise NotHere(words.decode() or "the confined process died")
    seen = []
    threading.Thread(target=report, args=(struct.unpack("i", ancillary[0][2][:4])[0], seen), daemon=True).start()
    _, status = os.waitpid(child, 0)
    return {"worked": status == 0, "calls": sorted(set(seen))}
