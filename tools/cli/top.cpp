// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/top.h"

#include <algorithm>
#include <cmath>

#include "lib/rpc/flow_stats.h"
#include "tools/cli/names.h"
#include "tools/cli/streams.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

std::string whole(double value) {
    return grouped(static_cast<std::uint64_t>(std::llround(std::max(value, 0.0))));
}

}  // namespace

void Top::begin(Rate::Time now) {
    now_ = now;
    streams_.clear();
    tasks_.clear();
    channels_.clear();
    ports_.clear();
    counters_.clear();
    for (auto& [name, known] : rates_) {
        known.seen = false;
    }
}

double Top::rate(const std::string& of, std::uint64_t count) {
    Known& known = rates_[of];
    known.seen = true;
    return known.rate.add(now_, count);
}

void Top::end() {
    std::erase_if(rates_, [](const auto& item) { return !item.second.seen; });
}

void Top::add_counters(const google::protobuf::RepeatedPtrField<v1::Counter>& counters) {
    for (const v1::Counter& counter : counters) {
        const double gained = rate("counter " + counter.name(), counter.value());
        if (gained > 0) {
            counters_.push_back({counter.name(), counter.class_(), counter.value(), gained});
        }
    }
    // What must not grow, or should not, before traffic; then the fastest.
    std::ranges::stable_sort(counters_, [](const Moving& a, const Moving& b) {
        const bool a_traffic = a.kind == "traffic";
        const bool b_traffic = b.kind == "traffic";
        return a_traffic != b_traffic ? b_traffic : a.rate > b.rate;
    });
}

void Top::look(Rate::Time now, const v1::AgentStatus& status) {
    begin(now);
    heading_ = "agent " + status.name() + ", up " + duration_text(status.uptime_seconds()) +
               (status.switch_address().empty() ? std::string(", no switch")
                                                : ", switch " + status.switch_address() +
                                                      (status.switch_reachable() ? "" : " NOT REACHABLE"));
    streams_ = all_streams(status);
    for (const v1::AgentTask& task : status.tasks()) {
        const v1::FlowStats& stats = task.stats();
        const std::string key = task.role() + " " + instance_text(task.instance()) + " " + task.id() + " ";
        const std::uint64_t here = stats.tuples_data() + stats.tuples_long() + stats.tuples_var();
        tasks_.push_back({task.id(), task.role(), task.state(), stats.tuples_in(),
                          rate(key + "in", stats.tuples_in()), rate(key + "switch", stats.tuples_switch()),
                          rate(key + "here", here)});
    }
    for (const v1::AgentChannel& channel : status.channels()) {
        if (!channel.task_id().empty()) {
            const std::string name = channel_text(channel.channel());
            channels_.push_back({name, channel.task_id(), rate("channel " + name, channel.next_seq()),
                                 channel.in_flight(), channel.window(), channel.srtt_us()});
        }
    }
    add_counters(status.counters());
    end();
}

void Top::look(Rate::Time now, const v1::SwitchStatus& status) {
    begin(now);
    heading_ = mark_text(status.mark()) + ", up " + duration_text(status.uptime_seconds()) + ", SRAM " +
               percent(status.sram_used_bytes(), status.sram_total_bytes()) + " in use, " +
               std::to_string(status.channels_size()) + " of " + std::to_string(status.channels_max()) +
               " channels";
    for (const v1::SwitchTask& task : status.tasks()) {
        const std::string key = "switch " + instance_text(task.instance()) + " ";
        const std::uint64_t on = task.stats().tuples_switch();
        const std::uint64_t left = tuples_sent_on(task.stats());
        const double on_rate = rate(key + "on", on);
        const double left_rate = rate(key + "left", left);
        tasks_.push_back(
            {task.id(), "switch", task.phase(), on + left, on_rate + left_rate, on_rate, left_rate});
    }
    for (const v1::SwitchPort& port : status.ports()) {
        ports_.push_back({port.name(), port.mode(), port.mtu(), port.attached()});
    }
    add_counters(status.counters());
    end();
}

std::string Top::text() const {
    std::string text = heading_ + "\n";
    const auto add = [&text](const Table& table) { text += table.empty() ? "" : "\n" + table.text(); };
    Table tasks({{"TASK"},
                 {"ROLE"},
                 {"STATE"},
                 {"TUPLES/s", Align::kRight},
                 {"ON SWITCH/s", Align::kRight},
                 {"HERE/s", Align::kRight},
                 {"TUPLES", Align::kRight}});
    for (const Task& task : tasks_) {
        tasks.add({task.id, task.role, task.state, whole(task.tuples_rate), whole(task.switch_rate),
                   whole(task.here_rate), grouped(task.tuples)});
    }
    Table channels({{"CHANNEL"},
                    {"TASK"},
                    {"PACKETS/s", Align::kRight},
                    {"IN FLIGHT", Align::kRight},
                    {"WINDOW", Align::kRight},
                    {"SRTT us", Align::kRight}});
    for (const Channel& channel : channels_) {
        channels.add({channel.name, channel.what, whole(channel.packets_rate),
                      std::to_string(channel.in_flight), whole(channel.window), whole(channel.srtt_us)});
    }
    Table ports({{"PORT"}, {"MODE"}, {"MTU", Align::kRight}, {"PROGRAM"}});
    for (const Port& port : ports_) {
        ports.add({port.name, port.mode, std::to_string(port.mtu), port.attached ? "attached" : "MISSING"});
    }
    Table counters({{"COUNTER"}, {"CLASS"}, {"A SECOND", Align::kRight}, {"VALUE", Align::kRight}});
    for (const Moving& counter : counters_) {
        counters.add({counter.name, counter.kind, whole(counter.rate), grouped(counter.value)});
    }
    text += streams_.empty() ? "" : "\n" + streams_text(streams_);
    text += tasks.empty() ? "\nno tasks\n" : "";
    add(tasks);
    add(channels);
    add(ports);
    add(counters);
    return text;
}

Json Top::json() const {
    Json json{{"streams", streams_json(streams_)},
              {"tasks", Json::array()},
              {"channels", Json::array()},
              {"ports", Json::array()},
              {"counters", Json::array()}};
    for (const Task& task : tasks_) {
        json["tasks"].push_back({{"id", task.id},
                                 {"role", task.role},
                                 {"state", task.state},
                                 {"tuples", task.tuples},
                                 {"tuples_rate", task.tuples_rate},
                                 {"switch_rate", task.switch_rate},
                                 {"here_rate", task.here_rate}});
    }
    for (const Channel& channel : channels_) {
        json["channels"].push_back({{"channel", channel.name},
                                    {"task", channel.what},
                                    {"packets_rate", channel.packets_rate},
                                    {"in_flight", channel.in_flight},
                                    {"window", channel.window},
                                    {"srtt_us", channel.srtt_us}});
    }
    for (const Port& port : ports_) {
        json["ports"].push_back(
            {{"name", port.name}, {"mode", port.mode}, {"mtu", port.mtu}, {"attached", port.attached}});
    }
    for (const Moving& counter : counters_) {
        json["counters"].push_back({{"name", counter.name},
                                    {"class", counter.kind},
                                    {"value", counter.value},
                                    {"rate", counter.rate}});
    }
    return json;
}

}  // namespace ask::cli
