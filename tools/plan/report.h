// SPDX-License-Identifier: Apache-2.0
//
// The answer of ask-plan: which switches, at what cost next to every contender, and what each link then
// carries; as text for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/contenders.h"
#include "lib/placement/soar.h"
#include "lib/topology/network.h"

namespace ask::plan {

// As reports and pictures show it: six digits.
[[nodiscard]] std::string number_text(double value);

struct Measures {
    double utilisation = 0;  // seconds, summed over links
    double bottleneck = 0;   // seconds, of the busiest link
    double bytes = 0;        // summed over links
};

struct Contender {
    std::string name;
    std::size_t switches = 0;
    Measures cost;
};

struct Link {
    std::string from;
    std::string to;
    double rate = 0;  // messages per second
    double messages = 0;
    double busy = 0;  // seconds
    double bytes = 0;
    bool aggregates = false;  // `from` does
};

struct Report {
    std::string objective;
    std::uint32_t k = 0;
    std::string destination;
    std::uint64_t senders = 0;
    std::vector<std::string> chosen;
    std::vector<Contender> contenders;  // the chosen placement last
    std::vector<Link> links;            // towards the destination, the root's first
    std::vector<double> curve;          // cost for 0 .. k; empty for the bottleneck objective
    std::string placement;              // the plan to be carried out, as JSON; empty: it cannot be
    std::string no_placement;           // then, if the file names relays or addresses: why
};

struct PlanRequest {
    placement::Objective objective = placement::Objective::kUtilisation;
    std::uint32_t k = 1;
    placement::SoarOptions options;
    placement::Strategy strategy = placement::Strategy::kSoar;  // of what is chosen
};

// kLimit as Soar::gather.
Result<Report> make_report(const topology::Fabric& fabric, const topology::Network& network,
                           const placement::SizeModel& model, const PlanRequest& request);

[[nodiscard]] std::string report_text(const Report& report);
// Schema in docs/placement.md.
[[nodiscard]] std::string report_json(const Report& report);

}  // namespace ask::plan
