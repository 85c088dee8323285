// SPDX-License-Identifier: Apache-2.0
//
// The agents of a history, as applications reach them by lib/client.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/tuples/types.h"
#include "tests/sim/tuples/application.h"

namespace ask::sim {

class Host;

// Of the history that runs; null between two.
void set_agents(std::vector<std::unique_ptr<Host>>* hosts);
// Until the agent of that host takes connections, which one that is stopped does not. False: it is down, or
// was stopped until then.
[[nodiscard]] bool await_agent(std::uint32_t host, Nanos until);
// A session of it, whose news wake `ready`. Null: it is down.
[[nodiscard]] std::shared_ptr<Link> open_session(std::uint32_t host, v1::LocalRequest request,
                                                 std::shared_ptr<Signal> ready);
// What the application has of a session by the number of its descriptor (descriptors.h).
void note_session(int descriptor, const std::shared_ptr<Link>& link);
void forget_session(int descriptor);
[[nodiscard]] std::shared_ptr<Link> session_of(int descriptor);

}  // namespace ask::sim
