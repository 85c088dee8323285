// SPDX-License-Identifier: Apache-2.0
//
// Simulated threads: what lib/base/runtime.h promises, by the header that stands in for it.
#include "tests/sim/tuples/threads.h"

#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/runtime.h"
#include "tests/sim/tuples/world.h"

namespace {

using namespace std::chrono_literals;
using ask::CondVar;
using ask::Guard;
using ask::kMillisecond;
using ask::kNever;
using ask::Lock;
using ask::Mutex;
using ask::Thread;
using ask::sim::park;
using ask::sim::Plan;
using ask::sim::Threads;
using ask::sim::World;

// A world with one process, and what its threads say.
struct Bed {
    Bed() { ask::sim::set_world(&world); }
    ~Bed() {
        process.kill();
        ask::sim::set_world(nullptr);
    }
    Bed(const Bed&) = delete;
    Bed& operator=(const Bed&) = delete;

    void say(const std::string& what) { said.push_back(what); }
    void run_until(ask::Nanos end) {
        while (world.clock.now() < end && world.clock.step()) {
        }
    }

    World world{Plan{}, 1, false};
    Threads process{world};
    std::vector<std::string> said;
};

using Said = std::vector<std::string>;

// Says so when it goes.
struct Witness {
    Bed& bed;
    std::string name;
    Witness(Bed& in, std::string as) : bed(in), name(std::move(as)) {}
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;
    ~Witness() { bed.say(name + " gone"); }
};

}  // namespace

TEST_CASE("one thread at a time holds a mutex, and time passes only while all wait") {
    Bed bed;
    Mutex mutex;
    for (const char* name : {"a", "b"}) {
        bed.process.spawn([&bed, &mutex, name] {
            const Guard lock(mutex);
            bed.say(std::string(name) + " in");
            park(nullptr, ask::sim::sim_now() + 5 * kMillisecond);
            bed.say(std::string(name) + " out");
        });
    }
    bed.run_until(20 * kMillisecond);
    CHECK(bed.said == Said{"a in", "a out", "b in", "b out"});
    CHECK(bed.world.clock.now() == 10 * kMillisecond);
}

TEST_CASE("a timed wait ends by its time, or before by what it waits for") {
    Bed bed;
    Mutex mutex;
    CondVar changed;
    bool set = false;
    bed.process.spawn([&] {
        Lock lock(mutex);
        CHECK_FALSE(changed.wait_for(lock, 3ms, [&] { return set; }));
        CHECK(ask::sim::sim_now() == 3 * kMillisecond);
        CHECK(lock.owns_lock());
        CHECK(changed.wait_for(lock, 1h, [&] { return set; }));
        CHECK(ask::sim::sim_now() == 7 * kMillisecond);
        bed.say("done");
    });
    bed.process.spawn([&] {
        park(nullptr, 7 * kMillisecond);
        const Guard lock(mutex);
        set = true;
        changed.notify_all();
    });
    bed.run_until(20 * kMillisecond);
    CHECK(bed.said == Said{"done"});
}

TEST_CASE("a thread is joined when it has ended") {
    Bed bed;
    bed.process.spawn([&] {
        Thread other(
            [&bed](const std::string& word) {
                park(nullptr, 2 * kMillisecond);
                bed.say(word);
            },
            std::string("other"));
        other.join();
        CHECK_FALSE(other.joinable());
        bed.say("joined");
    });
    bed.run_until(20 * kMillisecond);
    CHECK(bed.said == Said{"other", "joined"});
}

TEST_CASE("a process that is killed ends where its threads wait, the last one first") {
    Bed bed;
    Mutex mutex;
    CondVar never;
    bed.process.spawn([&] {
        const Witness witness(bed, "first");
        Lock lock(mutex);
        never.wait(lock);
        bed.say("never");
    });
    bed.process.spawn([&] {
        const Witness witness(bed, "second");
        const Guard lock(mutex);
        park(nullptr, kNever);
        bed.say("never");
    });
    bed.run_until(kMillisecond);
    bed.process.kill();
    CHECK(bed.said == Said{"second gone", "first gone"});
    // Others may live in it afterwards.
    bed.process.spawn([&] { bed.say("next life"); });
    CHECK(bed.said.back() == "next life");
}

TEST_CASE("who is killed while it would join another ends that one first") {
    Bed bed;
    struct Owner {
        explicit Owner(Bed& in)
            : bed(in), thread([this] {
                  const Witness witness(bed, "thread");
                  park(nullptr, kNever);
              }) {}
        Owner(const Owner&) = delete;
        Owner& operator=(const Owner&) = delete;
        ~Owner() {
            thread.join();
            bed.say("owner gone");
        }
        Bed& bed;
        Thread thread;
    };
    bed.process.spawn([&] {
        const Owner owner(bed);
        park(nullptr, kNever);
    });
    bed.process.kill();
    CHECK(bed.said == Said{"thread gone", "owner gone"});
}

TEST_CASE("a process that is stopped goes on later, where it was") {
    Bed bed;
    bed.process.spawn([&] {
        park(nullptr, 2 * kMillisecond);
        bed.say("at " + std::to_string(ask::sim::sim_now() / kMillisecond));
        park(nullptr, 100 * kMillisecond);
        bed.say("at " + std::to_string(ask::sim::sim_now() / kMillisecond));
    });
    bed.process.stop();
    bed.run_until(50 * kMillisecond);
    CHECK(bed.said.empty());
    // Nothing has happened since.
    CHECK(bed.world.clock.now() == 2 * kMillisecond);
    bed.process.go_on();
    bed.run_until(200 * kMillisecond);
    CHECK(bed.said == Said{"at 2", "at 100"});
}
