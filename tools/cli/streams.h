// SPDX-License-Identifier: Apache-2.0
//
// What askctl prints about the streams of a host (docs/streams.md): all of them, the record of one, and in
// words what one waits for. Text only: no I/O.
#pragma once

#include <string>
#include <vector>

#include "proto/agent.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

// A table; empty where there are none.
[[nodiscard]] std::string streams_text(const std::vector<v1::AgentStream>& streams);
[[nodiscard]] std::string streams_text(const v1::AgentStatus& status);
// With `age_seconds`, since a window was committed, null where none was, and `waits_for` of the oldest one.
[[nodiscard]] Json streams_json(const std::vector<v1::AgentStream>& streams);

// Those of that name: one that is received here, and each that is sent from here.
[[nodiscard]] std::vector<v1::AgentStream> streams_named(const std::string& name,
                                                         const v1::AgentStatus& status);
[[nodiscard]] std::vector<v1::AgentStream> all_streams(const v1::AgentStatus& status);

// All that is known of it.
[[nodiscard]] std::string stream_record_text(const v1::AgentStream& stream);
// How far it is, whom it waits for, and what to do.
[[nodiscard]] std::string explain_stream(const v1::AgentStream& stream);

}  // namespace ask::cli
