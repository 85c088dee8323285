// SPDX-License-Identifier: Apache-2.0
//
// An application and the session that serves it, with what lies between: the local socket, tuples and
// results.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/control/member/application_port.h"
#include "lib/control/member/table_store.h"
#include "lib/control/member/workers_port.h"
#include "tests/sim/tuples/oracle.h"
#include "tests/sim/tuples/threads.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

// Wakes whoever waits for other things as well.
class SimMailbox final : public Mailbox {
 public:
    explicit SimMailbox(std::shared_ptr<Signal> posted) : posted_(std::move(posted)) {}
    [[nodiscard]] bool has_mail() const { return has_mail_; }

 private:
    void wake() override {
        has_mail_ = true;
        sim::wake(*posted_);
    }
    void calm() override { has_mail_ = false; }

    const std::shared_ptr<Signal> posted_;
    bool has_mail_ = false;
};

// The ring: what an application has handed in so far.
class SimIntake final : public TupleIntake, public std::enable_shared_from_this<SimIntake> {
 public:
    [[nodiscard]] std::vector<int> descriptors() const override { return {}; }
    [[nodiscard]] std::size_t bytes() const override { return 1U << 18U; }

    std::shared_ptr<const Tuples> tuples;
    std::size_t handed_in = 0;       // of them, by the application
    std::size_t taken = 0;           // of those, by the worker
    std::uint64_t instance = 0;      // that they go to
    std::function<void()> has_more;  // tells the worker; empty: no stream has begun
};

class SimSealed final : public SealedTable, public std::enable_shared_from_this<SimSealed> {
 public:
    SimSealed(ResultTable of, std::size_t size) : table(std::move(of)), bytes_(size) {}
    [[nodiscard]] std::vector<int> descriptors() const override { return {}; }
    [[nodiscard]] std::size_t bytes() const override { return bytes_; }
    ResultTable table;

 private:
    std::size_t bytes_;
};

// Between the two. Either end closes it by going away.
struct Link {
    Link()
        : to_session(std::make_shared<Signal>()),
          to_application(std::make_shared<Signal>()),
          mailbox(std::make_shared<SimMailbox>(to_session)) {}

    std::deque<v1::LocalRequest> requests;
    std::deque<v1::LocalReply> replies;
    bool application_gone = false;
    bool session_gone = false;
    std::shared_ptr<Signal> to_session;
    std::shared_ptr<Signal> to_application;
    std::shared_ptr<SimMailbox> mailbox;
    std::shared_ptr<SimIntake> intake;        // that came with SendReady
    std::shared_ptr<const SimSealed> result;  // that came with Done
};

// The session's end.
class SimApplication final : public ApplicationPort {
 public:
    explicit SimApplication(std::shared_ptr<Link> link) : link_(std::move(link)) {}
    ~SimApplication() override;
    [[nodiscard]] std::uint32_t user() const override { return 0; }
    [[nodiscard]] std::shared_ptr<Mailbox> mailbox() const override { return link_->mailbox; }
    Ready wait(ask::Clock::time_point until, bool for_room) override;
    Result<AppIo> try_receive(v1::LocalRequest& request) override;
    Result<AppIo> try_send(const v1::LocalReply& reply, const Attachment* attachment) override;
    Result<> send(const v1::LocalReply& reply, const Attachment* attachment, milliseconds wait) override;

 private:
    // Replies that an application need not have read.
    static constexpr std::size_t kRoom = 8;
    std::shared_ptr<Link> link_;
};

// The application's end, for one of its threads.
class AppEnd {
 public:
    explicit AppEnd(std::shared_ptr<Link> link) : link_(std::move(link)) {}
    ~AppEnd() { close(); }
    AppEnd(const AppEnd&) = delete;
    AppEnd& operator=(const AppEnd&) = delete;

    void say(v1::LocalRequest request);
    // The next reply that is no progress. Nothing: the session has gone without one.
    std::optional<v1::LocalReply> next();
    // Whether there is a reply that is no progress, or no session any more.
    [[nodiscard]] bool has_news() const;
    void close();
    [[nodiscard]] Link& link() { return *link_; }

 private:
    std::shared_ptr<Link> link_;
};

}  // namespace ask::sim
