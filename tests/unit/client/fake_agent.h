// SPDX-License-Identifier: Apache-2.0
//
// An agent that says what a test tells it to, on a socket of its own. One connection after another.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/client/local_socket.h"
#include "lib/client/tuple_ring.h"
#include "lib/tuples/result_table.h"
#include "proto/local.pb.h"

namespace ask::test {

// The script of each connection: runs on a thread of its own, after the first request.
class FakeAgent {
 public:
    using Script = std::function<void(LocalSocket& client, const v1::LocalRequest& opening)>;
    explicit FakeAgent(Script script, unsigned connections = 1);
    FakeAgent(const FakeAgent&) = delete;
    FakeAgent& operator=(const FakeAgent&) = delete;
    ~FakeAgent();
    [[nodiscard]] const std::string& socket() const { return path_; }

 private:
    std::string dir_;
    std::string path_;
    std::thread thread_;
};

void say(LocalSocket& client, const v1::LocalReply& reply, std::span<const int> fds = {});
void say_failed(LocalSocket& client, Errc code, std::string error);
void say_progress(LocalSocket& client, std::uint64_t tuples_in);
v1::LocalRequest hear(LocalSocket& client);
// Waits until the application has closed the connection.
bool hears_the_end(LocalSocket& client);

// A finished table in sealed shared memory, as the agent hands it over.
struct SharedTable {
    UniqueFd slots;
    UniqueFd keys;
};
SharedTable share_table(const std::vector<std::pair<std::string, std::int64_t>>& tuples, int seals);

}  // namespace ask::test
