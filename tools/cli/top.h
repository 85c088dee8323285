// SPDX-License-Identifier: Apache-2.0
//
// `askctl top`: what moves, and how fast; streams, and how far they are. Text only: no I/O, and time goes in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/agent.pb.h"
#include "proto/switch.pb.h"
#include "tools/cli/rate.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

class Top {
 public:
    // Rates are a second's, over the last few; 0 at the first look, and for whatever is new.
    void look(Rate::Time now, const v1::AgentStatus& status);
    void look(Rate::Time now, const v1::SwitchStatus& status);
    // Of the last look.
    [[nodiscard]] std::string text() const;
    [[nodiscard]] Json json() const;

 private:
    struct Task {
        std::string id;
        std::string role;  // "receiver", "sender", "switch"
        std::string state;
        std::uint64_t tuples = 0;
        double tuples_rate = 0;
        double switch_rate = 0;
        double here_rate = 0;  // of a switch: left to travel on
    };
    struct Channel {
        std::string name;
        std::string what;  // its task; of a switch, its port
        double packets_rate = 0;
        std::uint32_t in_flight = 0;
        double window = 0;
        double srtt_us = 0;
    };
    struct Port {
        std::string name;
        std::string mode;
        std::uint32_t mtu = 0;
        bool attached = false;
    };
    struct Moving {
        std::string name;
        std::string kind;
        std::uint64_t value = 0;
        double rate = 0;
    };

    void begin(Rate::Time now);
    double rate(const std::string& of, std::uint64_t count);
    void add_counters(const google::protobuf::RepeatedPtrField<v1::Counter>& counters);
    // Forgets what is gone.
    void end();

    Rate::Time now_;
    std::string heading_;
    std::vector<v1::AgentStream> streams_;
    std::vector<Task> tasks_;
    std::vector<Channel> channels_;  // those with a task
    std::vector<Port> ports_;
    std::vector<Moving> counters_;  // those that grow
    struct Known {
        Rate rate;
        bool seen = false;
    };
    std::map<std::string, Known> rates_;
};

}  // namespace ask::cli
