// SPDX-License-Identifier: Apache-2.0
//
// A stream of a history in place of its tasks: ask-recv --every as shipped (tools/cli/every.cpp), which
// writes to a directory, and members (lib/client/stream_send.h), whose inputs are logs and pipes that grow;
// they come, leave, are killed and started again. Afterwards each window is compared with what was given to
// it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/client/stream_send.h"
#include "tests/sim/frame/random.h"
#include "tests/sim/tuples/host.h"
#include "tests/sim/tuples/threads.h"
#include "tests/sim/tuples/window_oracle.h"
#include "tests/sim/tuples/world.h"

namespace ask::cli {
struct EveryOptions;
}

namespace ask::sim {

class StreamApps {
 public:
    StreamApps(World& world, std::vector<std::unique_ptr<Host>>& hosts, std::uint64_t seed);
    ~StreamApps();
    StreamApps(const StreamApps&) = delete;
    StreamApps& operator=(const StreamApps&) = delete;

    void start();
    void kill();
    [[nodiscard]] bool done() const { return done_; }
    // Once it is done.
    void check();
    [[nodiscard]] std::uint64_t commits() const { return oracle_.commits(); }
    // Times that ask-recv ended in an error.
    [[nodiscard]] std::uint64_t errors() const { return errors_; }

 private:
    // What --state has.
    struct State {
        client::StreamMemory memory;
        std::uint64_t place = 0;                     // lines before it are of windows that have ended
        std::map<std::uint64_t, GivenLines> kept{};  // of these, by window
    };
    struct Member {
        Member(World& world, std::uint32_t of, std::uint32_t at) : number(of), host(at), process(world) {}
        const std::uint32_t number;
        const std::uint32_t host;
        bool has_state = false;
        bool quits = false;  // its input has an end
        bool up = false;
        std::uint64_t life = 0;     // times that it was started
        bool over = false;          // nobody starts it again
        bool has_died = false;      // with what it had read, if it has no state
        std::uint64_t lines = 0;    // of its input, when all is written
        std::uint64_t written = 0;  // so far
        std::uint64_t read = 0;
        State state;
        std::unique_ptr<Random> chance;
        Threads process;
    };

    void add_member(std::uint32_t number, Random& random);
    void start_receiver();
    void receive();
    void take_code(std::uint64_t life, int code);
    [[nodiscard]] cli::EveryOptions every_options();
    void start_member(Member& member);
    void send(Member& member);
    Result<> run_member(Member& member);
    Result<> give(Member& member, client::StreamSender& stream);
    [[nodiscard]] client::StreamSendOptions send_options(Member& member);
    Result<> step(Member& member, const client::StreamStep& step);
    void member_ended(Member& member, std::uint64_t life, const Result<>& result);
    void write(Member& member);
    void strike();
    void kill_receiver();
    void kill_member(Member& member);
    void finish();
    void see_whether_done();
    void pause_a_little(Random& random);
    [[nodiscard]] bool is_deadly() const;

    World& world_;
    std::vector<std::unique_ptr<Host>>& hosts_;
    Random chance_;
    WindowOracle oracle_;
    std::vector<std::unique_ptr<Member>> members_;
    Random receiver_chance_;
    Threads receiver_;
    Threads operator_;
    bool receiver_up_ = false;
    std::uint64_t receiver_life_ = 0;  // times that it was started
    bool whole_ = false;               // the stream has ended as it should
    bool done_ = false;
    bool allow_incomplete_;
    bool somebody_died_ = false;
    std::uint32_t recv_deaths_ = 0;  // that are to come
    std::uint32_t send_deaths_ = 0;
    std::uint64_t errors_ = 0;
    Nanos ends_at_ = 0;  // inputs
};

}  // namespace ask::sim
