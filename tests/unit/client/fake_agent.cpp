// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/fake_agent.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

namespace ask::test {
namespace {

constexpr Milliseconds kAgentPatience{20'000};

// Heap memory that remembers what it handed out.
class RecordedMemory : public TableMemory {
 public:
    RecordedMemory(std::span<std::byte>& slots, std::span<std::byte>& keys) : slots_(slots), keys_(keys) {}
    HashSeed draw_seed() override { return heap_->draw_seed(); }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        auto got = heap_->allocate_slots(bytes);
        if (got) {
            slots_ = *got;
        }
        return got;
    }
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        auto got = heap_->grow_keys(bytes);
        if (got) {
            keys_ = *got;
        }
        return got;
    }

 private:
    std::unique_ptr<TableMemory> heap_ = make_heap_memory();
    std::span<std::byte>& slots_;
    std::span<std::byte>& keys_;
};

UniqueFd to_memfd(std::span<const std::byte> bytes, int seals) {
    UniqueFd fd(::memfd_create("ask-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(fd);
    REQUIRE(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
    return fd;
}

}  // namespace

FakeAgent::FakeAgent(Script script, unsigned connections) {
    dir_ = std::filesystem::temp_directory_path() / "ask-agent-XXXXXX";
    REQUIRE(::mkdtemp(dir_.data()) != nullptr);
    path_ = dir_ + "/agent.sock";
    auto made = LocalListener::listen(path_, ::getgid());
    REQUIRE(made.ok());
    thread_ = std::thread([script = std::move(script), listener = *std::move(made), connections]() mutable {
        for (; connections > 0; --connections) {
            auto waiting = wait_fd(listener.fd(), 1 /* POLLIN */, kAgentPatience);
            auto client = listener.accept();
            if (!waiting.ok() || !*waiting || !client.ok() || !*client) {
                return;
            }
            v1::LocalRequest opening;
            if (client->receive(opening, nullptr, kAgentPatience).ok()) {
                script(*client, opening);
            }
        }
    });
}

FakeAgent::~FakeAgent() {
    thread_.join();
    std::filesystem::remove_all(dir_);
}

void say(LocalSocket& client, const v1::LocalReply& reply, std::span<const int> fds) {
    const auto sent = client.send(reply, fds, kAgentPatience);
    CHECK(sent.ok());
}

void say_failed(LocalSocket& client, Errc code, std::string error) {
    v1::LocalReply reply;
    reply.mutable_failed()->set_code(static_cast<int>(code));
    reply.mutable_failed()->set_error(std::move(error));
    say(client, reply);
}

void say_progress(LocalSocket& client, std::uint64_t tuples_in) {
    v1::LocalReply reply;
    reply.mutable_progress()->set_state("streaming");
    reply.mutable_progress()->mutable_stats()->set_tuples_in(tuples_in);
    say(client, reply);
}

v1::LocalRequest hear(LocalSocket& client) {
    v1::LocalRequest request;
    const auto got = client.receive(request, nullptr, kAgentPatience);
    CHECK(got.ok());
    return request;
}

bool hears_the_end(LocalSocket& client) {
    v1::LocalRequest request;
    const auto got = client.receive(request, nullptr, kAgentPatience);
    return !got.ok() && got.error().code() == Errc::kUnavailable;
}

SharedTable share_table(const std::vector<std::pair<std::string, std::int64_t>>& tuples, int seals) {
    std::span<std::byte> slots;
    std::span<std::byte> keys;
    auto table = ResultTable::create(std::make_unique<RecordedMemory>(slots, keys), Op::kSum);
    REQUIRE(table.ok());
    for (const auto& [key, value] : tuples) {
        REQUIRE(table->add(key, value).ok());
    }
    REQUIRE(table->finish().ok());
    return {to_memfd(slots, seals), to_memfd(keys, seals)};
}

}  // namespace ask::test
