// Who is woken by what comes over a connection: the reading thread, or the guest that waits for it.
#include "common/net/read_gate.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace warpline::net {
namespace {

using namespace std::chrono_literals;

/// A gate at one end of a pair of sockets, with a reading thread that counts how often it is woken, and reads nothing.
struct Gate {
    Gate() {
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        here = Socket(ends[0]);
        there = Socket(ends[1]);
        EXPECT_TRUE(gate.watch(here.fd()).ok());
    }
    ~Gate() {
        stopping = true;
        gate.wake_reader();
        if (reader.joinable()) reader.join();
    }
    void start_reader() {
        reader = std::thread([this] {
            while (!stopping) {
                gate.wait(ReadGate::Clock::now() + 1h);
                ++woken;
            }
        });
    }
    void write_byte() { EXPECT_EQ(::write(there.fd(), "x", 1), 1); }
    void read_byte() {
        char byte = 0;
        EXPECT_EQ(::read(here.fd(), &byte, 1), 1);
    }

    Socket here, there;
    ReadGate gate;
    std::atomic<bool> stopping{false};
    std::atomic<unsigned> woken{0};
    std::thread reader;
};

/// Where a thread of this process sleeps: the number of its system call. -1: it runs; -2: this machine does not say.
long sleeps_in(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
    std::string word;
    if (!(file >> word)) return -2;
    return word == "running" ? -1 : std::strtol(word.c_str(), nullptr, 10);
}

void until_it_waits(pid_t thread) {
    for (long where = -1; where != SYS_epoll_wait && where != SYS_epoll_pwait; where = sleeps_in(thread))
        std::this_thread::yield();
}

TEST(ReadGate, WhatComesWakesTheSleepingGuestAndNobodyElse_B2) {
    if (sleeps_in(::gettid()) == -2) GTEST_SKIP() << "/proc does not tell who sleeps";
    constexpr unsigned k_rounds = 200;
    Gate ends;
    std::atomic<pid_t> guest_id{0}, reader_id{0};
    std::atomic<unsigned> rounds{0};
    ends.reader = std::thread([&] {
        reader_id = ::gettid();
        while (!ends.stopping) {
            ends.gate.wait(ReadGate::Clock::now() + 1h);
            ++ends.woken;
        }
    });
    while (reader_id == 0) std::this_thread::yield();
    until_it_waits(reader_id);
    std::thread guest([&] {
        guest_id = ::gettid();
        for (unsigned i = 0; i < k_rounds; ++i) {
            ends.gate.guest_comes();
            EXPECT_FALSE(ends.gate.wait_as_guest([] { return false; }));
            ends.read_byte();
            ends.gate.guest_leaves(false);
            ++rounds;
        }
    });
    while (guest_id == 0) std::this_thread::yield();
    for (unsigned i = 0; i < k_rounds; ++i) {
        until_it_waits(guest_id);
        ends.write_byte();
        while (rounds == i) std::this_thread::yield();
    }
    guest.join();
    EXPECT_EQ(ends.woken, 0u);
}

TEST(ReadGate, WhatComesWhileTheGuestIsBusyWaitsForItsLeave_B2) {
    Gate ends;
    ends.gate.guest_comes();
    ends.write_byte();
    ends.gate.wait(ReadGate::Clock::now() + 1h);  // it is told, and does not read: that is the guest's
    ends.gate.reader_declines();
    ends.start_reader();
    ends.write_byte();
    EXPECT_EQ(ends.woken, 0u);
    ends.gate.guest_leaves(false);
    while (ends.woken == 0) std::this_thread::yield();
    ends.read_byte();
    ends.read_byte();
}

TEST(ReadGate, TheNextGuestClosesTheDoorWhereTheReaderWasWokenForNothing_B2) {
    Gate ends;
    ends.gate.guest_comes();
    ends.gate.reader_declines();
    ends.gate.guest_leaves(false);
    ends.gate.guest_comes();
    ends.write_byte();
    const auto later = ReadGate::Clock::now() + 20ms;
    ends.gate.wait(later);
    EXPECT_GE(ReadGate::Clock::now(), later) << "nobody is told while the guest is there";
    ends.gate.guest_leaves(false);
    ends.gate.wait(ReadGate::Clock::now() + 1h);
    ends.read_byte();
}

TEST(ReadGate, WhoLeavesSomethingUnreadWakesTheReader_B2) {
    Gate ends;
    ends.start_reader();
    ends.gate.guest_comes();
    ends.gate.guest_leaves(true);
    while (ends.woken == 0) std::this_thread::yield();
}

TEST(ReadGate, AGuestIsWokenForWhatSomebodyElseHasDone_B2) {
    Gate ends;
    std::atomic<bool> asked{false};
    std::thread other([&] {
        while (!asked) std::this_thread::yield();
        ends.gate.wake_guest();
    });
    EXPECT_FALSE(ends.gate.wait_as_guest([&] {
        asked = true;
        return false;
    }));
    EXPECT_TRUE(ends.gate.wait_as_guest([] { return true; }));
    other.join();
}

}  // namespace
}  // namespace warpline::net
