// SPDX-License-Identifier: Apache-2.0
//
// The applications of a history: what ask-send and ask-recv do, each on a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/frame/random.h"
#include "tests/sim/tuples/application.h"
#include "tests/sim/tuples/host.h"
#include "tests/sim/tuples/oracle.h"
#include "tests/sim/tuples/threads.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

class Apps {
 public:
    Apps(World& world, Oracle& oracle, std::vector<std::unique_ptr<Host>>& hosts, std::uint64_t seed);

    void start();
    void kill() { threads_.kill(); }
    [[nodiscard]] bool done() const { return receivers_left_ == 0; }
    // Receives that ended in an error.
    [[nodiscard]] std::uint64_t errors() const { return errors_; }

 private:
    // Shared by the applications of one task.
    struct Task {
        std::string id;
        std::uint32_t receiver = 0;  // host
        std::uint32_t senders = 0;
        bool over = false;
        std::uint32_t sending = 0;
        v1::Placement placement;  // without relays: none
        Signal changed;
    };
    using TaskPtr = std::shared_ptr<Task>;
    // How a receive is tried, once more if need be.
    struct Try {
        bool no_switch = false;
        v1::Placement placement;
        std::vector<std::string> lost_relays{};  // what the agent said
        std::vector<std::string> lost_switches{};
        std::vector<std::string> without{};  // senders' own switches that were lost, by their addresses
    };

    void receive_all(std::uint32_t receiver);
    [[nodiscard]] TaskPtr make_task(std::uint32_t receiver, std::uint32_t number, Random& random);
    void receive(const TaskPtr& task, Random& random);
    Result<> try_receive(const Task& task, Try& how);
    static void plan_again(Try& how, std::uint32_t run);
    void place(Task& task, std::uint32_t number, const std::vector<std::uint32_t>& senders) const;
    Result<> take_again(const Task& task);
    Result<> take(const Task& task, AppEnd& app, std::uint64_t instance, const v1::Done& done);
    void send(const TaskPtr& task, std::uint32_t host, std::shared_ptr<const Tuples> tuples, Random random);
    Result<> try_send(const Task& task, std::uint32_t host, const std::shared_ptr<const Tuples>& tuples,
                      Random& random);
    // All of them, at the application's pace. False: it goes away, or its session has something to say.
    bool hand_in(AppEnd& app, SimIntake& intake, Random& random);
    [[nodiscard]] v1::LocalRequest receive_request(const Task& task, const Try& how) const;
    [[nodiscard]] v1::LocalRequest send_request(const Task& task, const Tuples& tuples) const;
    // With an agent that is up.
    [[nodiscard]] std::unique_ptr<AppEnd> connect(std::uint32_t host, const v1::LocalRequest& request);
    void sleep(Nanos time);
    // A session has ended: nothing may have stood still for much longer than its deadline.
    void check_end(const std::string& who);
    // Only what dies, a control network that loses calls, or tasks that wait for each other's channels may
    // make a task fail.
    [[nodiscard]] bool tasks_must_succeed() const;

    World& world_;
    Oracle& oracle_;
    std::vector<std::unique_ptr<Host>>& hosts_;
    const std::uint64_t seed_;
    std::uint32_t receivers_left_ = 0;
    std::uint64_t errors_ = 0;
    Threads threads_;
};

// "h3 (198.18.0.4)", as its agent is known to others.
[[nodiscard]] std::string full_name(std::uint32_t host);

// From 2^low to 2^high microseconds, each magnitude as likely.
[[nodiscard]] Nanos some_time(Random& random, unsigned low, unsigned high);

}  // namespace ask::sim
