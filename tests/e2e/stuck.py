"""What processes are doing that should have ended long ago: the stacks of their threads, for the report of a test."""

import pathlib
import shutil
import subprocess


def family(pids):
    """The processes and all that descends from them, as far as they run."""
    parents = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue  # it has just ended
        parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(text.split()[0]))
    found = list(pids)
    for pid in found:
        found += parents.get(pid, [])
    return found


def threads(pid):
    """Each thread's name, state, clock ticks of processor and what it waits for in the kernel: what can be had without a debugger."""
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("[0-9]*"), key=lambda task: int(task.name)):
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            lines.append(f"  {task.name} {name}: {fields[0]}, {int(fields[11]) + int(fields[12])} ticks, {(task / 'wchan').read_text()}")
        except OSError:
            continue
    return "\n".join(lines)


def stacks(pid):
    """The stacks of a process's threads, where there is a debugger that may look; else threads()."""
    if debugger := shutil.which("gdb"):
        try:
            done = subprocess.run([debugger, "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 16"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=120)
        except subprocess.TimeoutExpired:
            return threads(pid)
        if "#0" in done.stdout:
            return "\n".join(line for line in done.stdout.splitlines() if line.startswith(("Thread", "#")))
    return threads(pid)


def report(pids):
    """What all these processes and their descendants are doing."""
    parts = []
    for pid in family(pids):
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        parts.append(f"process {pid}: {command}\n{stacks(pid)}")
    return "\n".join(parts)
