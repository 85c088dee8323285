// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/link_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "lib/net/host_book.h"
#include "tools/cli/names.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

// What one place where flows end has said.
struct Arrivals {
    const google::protobuf::RepeatedPtrField<v1::FlowsFrom>* flows = nullptr;  // null: it has not
    std::string why;
};

// Null: that relay has, or had, no part of the task.
const v1::RelayedTask* part_of(const v1::RelayStatus& status, const v1::AgentTask& task) {
    const auto at = std::ranges::find(status.relays(), task.instance(), &v1::RelayedTask::instance);
    return at == status.relays().end() ? nullptr : &*at;
}

Arrivals arrivals_at(const v1::PlacedRelay& relay, const v1::AgentTask& task,
                     std::span<const RelayAnswer> answers) {
    const auto answer = std::ranges::find(answers, relay.address(), &RelayAnswer::address);
    if (answer == answers.end()) {
        return {nullptr, "relay " + relay.name() + " was not asked"};
    }
    if (!answer->status.ok()) {
        return {nullptr, "relay " + relay.name() + ": " + answer->status.error().text()};
    }
    const v1::RelayedTask* const part = part_of(*answer->status, task);
    if (part == nullptr) {
        return {nullptr, "relay " + relay.name() + " knows nothing of the task any more"};
    }
    return part->flows().empty()
               ? Arrivals{nullptr, "relay " + relay.name() +
                                       " knows once all that come to it have finished: it is " +
                                       part->state()}
               : Arrivals{&part->flows(), ""};
}

// As format_host() writes it: of IPv6 there are many texts for one address.
std::string host_text(const std::string& address) {
    const auto host = parse_host(address);
    return host.ok() ? format_host(*host) : address;
}

class Counting {
 public:
    explicit Counting(const v1::AgentTask& task) : task_(task), plan_(task.placement()) {
        for (const v1::PlacedLink& link : plan_.links()) {
            next_.emplace(link.from(), counts_.links.size());
            counts_.links.push_back({.from = link.from(),
                                     .to = link.to(),
                                     .planned = link.messages(),
                                     .predicted = link.bytes(),
                                     .counted = Crossed()});
        }
        for (const v1::PlacedHost& host : plan_.hosts()) {
            at_.emplace(host_text(host.address()), host.at());
            nowhere_ = nowhere_ || host.at().empty();
        }
    }

    // `relay`: its name; empty: the receiver.
    void add(const std::string& relay, const Arrivals& arrivals) {
        if (arrivals.flows == nullptr) {
            counts_.unknown.push_back(arrivals.why);
            return forget(relay);
        }
        for (const v1::FlowsFrom& from : *arrivals.flows) {
            const auto host = at_.find(format_host(from.host()));
            const std::string at = !from.relay().empty() ? from.relay()
                                   : host != at_.end()   ? host->second
                                                         : "";
            walk(at, relay, [&](LinkCount& link) {
                if (link.counted) {
                    link.counted->flows += from.finished();
                    link.counted->frame_bytes += from.frame_bytes();
                    link.counted->retransmissions += from.retransmissions();
                }
            });
        }
    }

    LinkCounts take() {
        if (nowhere_) {
            counts_.unknown.emplace_back(
                "the plan does not say at which switches its hosts are: an ask-plan of this version does");
            std::ranges::for_each(counts_.links, [](LinkCount& link) { link.counted.reset(); });
        }
        std::ranges::reverse(counts_.links);
        return std::move(counts_);
    }

 private:
    // All links of the plan between a switch and another, or the receiver.
    template <typename Visit>
    void walk(std::string at, const std::string& to, Visit visit) {
        for (std::size_t crossed = 0; crossed < counts_.links.size() && at != to; ++crossed) {
            const auto link = next_.find(at);
            if (link == next_.end()) {
                return;
            }
            visit(counts_.links[link->second]);
            at = counts_.links[link->second].to;
        }
    }
    void forget(const std::string& relay) {
        const auto unknown = [](LinkCount& link) { link.counted.reset(); };
        for (const v1::PlacedHost& host : plan_.hosts()) {
            if (host.entry() == relay) {
                walk(host.at(), relay, unknown);
            }
        }
        for (const v1::PlacedRelay& below : plan_.relays()) {
            if (below.parent() == relay) {
                walk(below.name(), relay, unknown);
            }
        }
    }

    const v1::AgentTask& task_;
    const v1::Placement& plan_;
    LinkCounts counts_;
    std::map<std::string, std::size_t> next_;  // its link upwards, by a switch's name
    std::map<std::string, std::string> at_;    // its switch, by a host's address
    bool nowhere_ = false;                     // a host whose switch is not known
};

LinkCount sum_of(const std::vector<LinkCount>& links) {
    LinkCount sum{.from = {}, .to = {}, .planned = 0, .predicted = 0, .counted = Crossed()};
    bool all_predicted = true;
    for (const LinkCount& link : links) {
        sum.planned += link.planned;
        sum.predicted += link.predicted;
        all_predicted = all_predicted && link.predicted > 0;
        if (!link.counted) {
            sum.counted.reset();
        } else if (sum.counted) {
            sum.counted->flows += link.counted->flows;
            sum.counted->frame_bytes += link.counted->frame_bytes;
            sum.counted->retransmissions += link.counted->retransmissions;
        }
    }
    sum.predicted = all_predicted ? sum.predicted : 0;
    return sum;
}

void add_row(Table& table, const std::string& name, const LinkCount& link) {
    table.add({name, grouped(link.planned), link.counted ? grouped(link.counted->flows) : "-",
               link.predicted > 0 ? grouped(static_cast<std::uint64_t>(std::llround(link.predicted))) : "-",
               link.counted ? grouped(link.counted->frame_bytes) : "-"});
}

}  // namespace

LinkCounts count_links(const v1::AgentTask& task, std::span<const RelayAnswer> relays) {
    Counting counting(task);
    counting.add("", {&task.flows(), ""});
    for (const v1::PlacedRelay& relay : task.placement().relays()) {
        counting.add(relay.name(), arrivals_at(relay, task, relays));
    }
    return counting.take();
}

std::string links_text(const v1::AgentTask& task, std::span<const RelayAnswer> relays) {
    if (task.placement().links().empty()) {
        return "";
    }
    const LinkCounts counts = count_links(task, relays);
    Table table({{"Link"},
                 {"flows planned", Align::kRight},
                 {"counted", Align::kRight},
                 {"bytes planned", Align::kRight},
                 {"counted", Align::kRight}});
    for (const LinkCount& link : counts.links) {
        add_row(table, link.from + " -> " + link.to, link);
    }
    const LinkCount sum = sum_of(counts.links);
    add_row(table, "all", sum);
    std::string text = table.text();
    for (const std::string& why : counts.unknown) {
        text += "Not counted: " + why + ".\n";
    }
    if (sum.counted && sum.counted->retransmissions > 0) {
        text += "Not among these bytes: " + grouped(sum.counted->retransmissions) +
                " times a packet was sent again, on each link that it had to cross.\n";
    }
    return text;
}

Json links_json(const v1::AgentTask& task, std::span<const RelayAnswer> relays) {
    const LinkCounts counts = count_links(task, relays);
    Json links = Json::array();
    for (const LinkCount& link : counts.links) {
        Json entry = {{"from", link.from},
                      {"to", link.to},
                      {"flows_planned", link.planned},
                      {"flows", nullptr},
                      {"bytes_planned", nullptr},
                      {"frame_bytes", nullptr},
                      {"retransmissions", nullptr}};
        if (link.predicted > 0) {
            entry["bytes_planned"] = link.predicted;
        }
        if (link.counted) {
            entry["flows"] = link.counted->flows;
            entry["frame_bytes"] = link.counted->frame_bytes;
            entry["retransmissions"] = link.counted->retransmissions;
        }
        links.push_back(std::move(entry));
    }
    return {{"links", std::move(links)}, {"unknown", counts.unknown}};
}

}  // namespace ask::cli
