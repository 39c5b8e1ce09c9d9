"""What scripts/test-gpu asks in its first part, in this order, and of whom. Part numbers are those of the report."""

from dataclasses import dataclass

# Where the server would like its window: its own first choice, and what others are known to use.
HINT_ADDRESSES = ["0x200000000000", "0x700000000000", "0x600000000000"]
END_OF_ADDRESSES = 1 << 47


# Who waits, and whose call goes on or not (locks.py); what the server depends on (docs/driver-behaviour.md, DB-50).
BESIDE = [("stream", "launch"), ("event", "event_destroy"), ("context", "copy_there_locked_async"), ("copy_back", "launch"),
          ("copy_back", "event_query"), ("copy_there", "event_record"), ("full_queue", "launch"), ("full_queue", "event_destroy"),
          ("full_queue_of_copies", "host_register"), ("none", "host_register"), ("none", "unmap")]

# What one look at hardware has left open (unsettled.py).
UNSETTLED = ["fills_beyond_all_bytes", "arrays_in_planes", "attributes_of_kernel_and_function", "clusters", "times_of_context_events",
             "locked_memory_is_read", "streams_of_green_contexts"]
UNSETTLED_OF = [("behind_function_of_legacy_stream", "kernel"), ("behind_function_of_legacy_stream", "copy"),
                ("flags_of_executable_graphs", "no"), ("flags_of_executable_graphs", "kernel"),
                *[("ports_of_launched_events", kind, mode) for kind in ("programmatic", "completion") for mode in ("global", "relaxed")]]


@dataclass(frozen=True)
class Question:
    part: str
    module: str
    function: str
    arguments: tuple = ()
    compared: bool = True  # with the software GPU's strict profile
    remote: bool = False  # through a gpu-server as well, where the answer must be the same
    short: bool = True  # asked in the short form, too

    @property
    def id(self):
        return "/".join([self.function, *self.arguments])


def first_part():
    """The questions of the first five minutes."""
    def ask(part, module, function, *arguments, **how):
        return Question(part, module, function, arguments, **how)

    versions, hints = "1 versions and devices", "3 address hints"
    meaning, times, memory = "4 what is left open", "5 times", "7 the end of memory, and faults"
    questions = [ask(versions, "meaning", "versions", compared=False)]
    for address in HINT_ADDRESSES:
        for gib in ("64", "1024", "16384"):
            # Where not all of it is among the addresses that processes have, it is the driver's choice what it makes of the hint.
            is_possible = int(address, 0) + (int(gib) << 30) < END_OF_ADDRESSES
            questions.append(ask(hints, "meaning", "address_hint", gib, address, compared=is_possible, short=gib == "64"))
    questions += [ask(meaning, "meaning", "in_relaxed_capture", what) for what in ("synchronise", "free", "unmap")]
    questions += [ask(meaning, "meaning", "host_function_after_fault"), ask(meaning, "meaning", "host_functions_of_two_streams"),
                  ask(meaning, "meaning", "launch_queue_depth")]
    for direction in ("to_device", "from_device"):
        for size in ("65535", "65536", "65537"):
            questions.append(ask(meaning, "meaning", "pageable_copy_on_busy_stream", size, direction, short=size == "65537"))
    questions += [ask(meaning, "meaning", "mapped_copy_in_other_context", word) for word in ("no", "yes")]
    questions += [ask(meaning, "meaning", name) for name in ("mapped_memory_across_reset", "jit_log_of_library")]
    questions += [ask(meaning, "meaning", name, remote=True) for name in ("unknown_entry_point", "attributes_of_plain_memory")]
    questions.append(ask(meaning, "graphs", "names_of_kernel_nodes", remote=True))
    questions += [ask(meaning, "unsettled", name, remote=True, short=False) for name in UNSETTLED]
    questions += [ask(meaning, "unsettled", name, argument, *more, remote=True, short=False) for name, argument, *more in UNSETTLED_OF]
    questions += [ask(meaning, "locks", "beside", *pair, compared=False, short=False) for pair in BESIDE]
    questions += [ask(times, "timings", "start"), ask(times, "timings", "mapping", "2"),
                  ask(times, "timings", "mapping", "256", short=False), ask(times, "timings", "host_memory", "1"),
                  ask(times, "timings", "host_memory", "64", short=False), ask(times, "timings", "host_function_gap"),
                  ask(times, "timings", "memory_of_a_process")]
    questions.append(ask("6 system calls outside the worker's filter", "confinement", "calls_outside_the_filter"))
    questions += [ask(memory, "timings", "near_full_memory", remote=True),
                  ask(memory, "timings", "fault_with_copies_under_way", remote=True)]
    return questions
