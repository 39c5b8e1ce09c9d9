"""What test_wheel.py runs with the Python that the wheel is installed in: wheel_program.py STEP. Each step checks what it sees, and
prints 'verified'. CUDA is used as frameworks use it: by the name libcuda.so.1, whoever answers to it."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading

import warpline

SQUARES = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry squares(.param .u64 numbers, .param .u32 count) {
    .reg .b32 %n, %i, %x, %t;
    .reg .b64 %at, %offset;
    .reg .pred %beyond;
    ld.param.u64 %at, [numbers];
    ld.param.u32 %n, [count];
    cvta.to.global.u64 %at, %at;
    mov.u32 %i, %ctaid.x;
    mov.u32 %t, %ntid.x;
    mov.u32 %x, %tid.x;
    mad.lo.u32 %i, %i, %t, %x;
    setp.ge.u32 %beyond, %i, %n;
    @%beyond ret;
    mul.wide.u32 %offset, %i, 4;
    add.u64 %at, %at, %offset;
    ld.global.u32 %x, [%at];
    mad.lo.u32 %x, %x, %x, %i;
    st.global.u32 [%at], %x;
    ret;
}
\0"""


def squares(numbers):
    """x * x + i of each, by the device."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(function, *arguments):
        code = getattr(cuda, function)(*arguments)
        if code != 0:
            raise RuntimeError(f"{function}: CUDA error {code}")

    context, module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    count = ctypes.c_uint32(len(numbers))
    host = (ctypes.c_uint32 * len(numbers))(*numbers)
    size = ctypes.c_size_t(ctypes.sizeof(host))
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), SQUARES)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"squares")
    call("cuMemAlloc_v2", ctypes.byref(memory), size)
    call("cuMemcpyHtoD_v2", memory, host, size)
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(count))
    call("cuLaunchKernel", function, (len(numbers) + 127) // 128, 1, 1, 128, 1, 1, 0, None, parameters, None)
    call("cuMemcpyDtoH_v2", host, memory, size)
    call("cuMemFree_v2", memory)
    return list(host)


LIMIT = 64 << 20


def sizes():
    """What CUDA says of the device's memory, of more than there is to be had, and of all of it."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory, free, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
    codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)]
    codes.append(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    codes.append(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(free.value + 1)))
    codes.append(cuda.cuMemAlloc_v2(ctypes.byref(memory), free))
    codes.append(cuda.cuMemFree_v2(memory))
    return codes, total.value


NUMBERS = [(7 * i) % 1000 for i in range(1000)]
EXPECTED = [x * x + i for i, x in enumerate(NUMBERS)]


class Refusal(Exception):
    """An exception that cannot be read again: it does not keep what its constructor wants."""

    def __init__(self, what, why):
        super().__init__(f"{what}: {why}")


class Complaint(Exception):
    """One that can."""


@warpline.remote
def remote_squares(numbers):
    return squares(numbers)


@warpline.remote(memory=LIMIT)
def remote_sizes():
    return sizes()


@warpline.remote(servers="127.0.0.1:1")
def nowhere():
    return "reached"


@warpline.remote
def misbehave(how):
    if how == "complain":
        raise Complaint("of this", 4711)
    if how == "refuse":
        raise Refusal("no", "reason")
    if how == "exit":
        sys.exit(3)
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda: how


def stay(told):
    """Says who it is, and who its child is, and never ends."""
    child = subprocess.Popen(["sleep", "1000"])
    squares(NUMBERS)
    pathlib.Path(told).write_text(f"{os.getpid()} {child.pid}\n")
    signal.pause()


def raises(kind, call, *arguments, words="", **keywords):
    """The exception that this raises, which must be one of that kind, with these words in it."""
    try:
        got = call(*arguments, **keywords)
    except kind as error:
        assert words in str(error), f"{words!r} is not in {error}"
        return error
    raise AssertionError(f"no {kind.__name__}, but {got!r}")


def connect():
    """By the parameters alone; the environment names nothing."""
    address, folder = sys.argv[2:]
    files = {"cert": f"{folder}/tenant.crt", "key": pathlib.Path(folder) / "tenant.key", "ca": f"{folder}/ca.crt"}
    raises(warpline.ConnectError, warpline.connect, words="no server is named")
    # What fails before CUDA starts leaves the next try open.
    raises(warpline.ConnectError, warpline.connect, "127.0.0.1:1", words="127.0.0.1:1: connection refused", **files)
    raises(FileNotFoundError, warpline.connect, address, cert="/no/such.crt", words="/no/such.crt")
    raises(ValueError, warpline.connect, address, memory="8 sheep", words="WARPLINE_MEMORY: memory = '8 sheep'", **files)
    raises(TypeError, warpline.connect, address, memory=8.5, words="8.5", **files)
    raises(TypeError, warpline.connect, address, wait_second=1, words="did you mean 'wait_seconds'?", **files)
    raises(ValueError, warpline.connect, address, wait_seconds="soon", words="'soon'", **files)
    before = dict(os.environ)
    with warpline.connect(address, devices=[1], memory="64MiB", stats=pathlib.Path("statistics"), **files) as connection:
        assert connection.started
        assert squares(NUMBERS) == EXPECTED
        assert sizes() == ([0, 0, 0, 0, 2, 0, 0], LIMIT), sizes()
        assert hasattr(ctypes.CDLL("libnvidia-ml.so.1", mode=os.RTLD_NOLOAD), "warpline_client_marker")
        assert [device.index for device in warpline.devices()] == [0], "one of two is to be seen"
        program = [sys.executable, __file__, "unconnected"]
        assert "verified" in subprocess.run(program, capture_output=True, text=True, check=True).stdout
        # The same once more is no change; another server would be one.
        assert warpline.connect().started
        raises(warpline.CudaLoadedError, warpline.connect, "127.0.0.1:1", words="WARPLINE_SERVERS")
    assert dict(os.environ) == before
    assert squares(NUMBERS) == EXPECTED, "the session lasts as long as the process"
    assert raises(TypeError, warpline.remote, lambda: 0)


def unconnected():
    """A program that knows nothing of Warpline, in the environment that connect() has made."""
    assert squares(NUMBERS) == EXPECTED


def other_driver():
    """Another libcuda.so.1 is there first."""
    ctypes.CDLL(sys.argv[2])
    raises(warpline.CudaLoadedError, warpline.connect, words="is loaded in this process")


def fork():
    """CUDA starts in the children, each with a session of its own."""
    connection = warpline.connect(start=False)
    assert not connection.started
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os._exit(0 if squares(NUMBERS) == EXPECTED else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert not connection.started


def devices():
    address, nobody = sys.argv[2:]
    found = warpline.devices()
    assert [(device.server, device.index) for device in found] == [(address, 0), (address, 1)], found
    for device in found:
        assert device.name == "Warpline software GPU" and device.uuid.startswith("GPU-"), device
        assert 0 < device.free_bytes <= device.total_bytes and device.compute_capability == (8, 9), device
        assert device.round_trip_us > 5, device
    assert len({device.uuid for device in found}) == 2, found
    assert len(warpline.devices([address, nobody])) == 2, "one that cannot be reached is left out"
    raises(warpline.ConnectError, warpline.devices, nobody, words="refused")
    there, not_there = warpline.servers([address, nobody])
    assert there.answered and there.address == address and there.driver == "software" and not there.draining, there
    assert (there.device_count, there.max_sessions, len(there.devices)) == (2, 64, 2), there
    assert there.driver_version >= (13, 0) and there.version and there.round_trip_ms > 0.005, there
    assert there.devices[0].total_bytes == found[0].total_bytes, there
    assert not not_there.answered and "refused" in not_there.problem, not_there


def remote():
    """This process has no CUDA, nor may have: a driver of somebody else's is loaded."""
    ctypes.CDLL(sys.argv[2])
    assert remote_squares(NUMBERS) == EXPECTED
    assert remote_sizes() == ([0, 0, 0, 0, 2, 0, 0], LIMIT), remote_sizes()
    results = {}
    threads = [threading.Thread(target=lambda n=n: results.update({n: remote_squares(NUMBERS[:n])})) for n in (10, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: EXPECTED[:n] for n in (10, 500)}
    complaint = raises(Complaint, misbehave, "complain")
    assert complaint.args == ("of this", 4711) and 'raise Complaint("of this", 4711)' in str(complaint.__cause__)
    raises(warpline.RemoteError, misbehave, "refuse", words="Refusal: no: reason")
    raises(warpline.RemoteError, misbehave, "exit", words="SystemExit: 3")
    raises(warpline.RemoteError, misbehave, "die", words="killed by SIGKILL")
    raises(warpline.RemoteError, misbehave, "lambda", words="cannot be pickled")
    raises(warpline.ConnectError, nowhere, words="127.0.0.1:1: connection refused")


def timeout():
    told, seconds = pathlib.Path(sys.argv[2]), 2
    while not told.exists():  # on a machine that is busy, the process may not have come so far
        raises(TimeoutError, warpline.remote(timeout=seconds)(stay), str(told), words="no result in time")
        seconds *= 2
    for process in map(int, told.read_text().split()):
        assert not pathlib.Path(f"/proc/{process}/cmdline").exists() or not pathlib.Path(f"/proc/{process}/cmdline").read_bytes()


def wait():
    """Until somebody ends this process, or interrupts it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raises(KeyboardInterrupt, warpline.remote(stay), sys.argv[2])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("verified")
