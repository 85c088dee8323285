// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/streams.h"

#include <algorithm>

#include "tools/cli/names.h"
#include "tools/cli/stream_dir.h"
#include "tools/cli/table.h"

namespace ask::cli {
namespace {

// Who has not been heard of for so long is worth a word.
constexpr double kSilentSeconds = 5;

bool receives(const v1::AgentStream& stream) {
    return stream.role() == "receiver";
}

bool has_committed(const v1::AgentStream& stream) {
    return receives(stream) && stream.whole() + stream.incomplete() + stream.empty() > 0;
}

double every_seconds(const v1::AgentStream& stream) {
    return stream.every_ms() / 1000.0;
}

// The oldest window is what all the others wait for.
std::string waits_for(const v1::AgentStream& stream) {
    return !stream.trouble().empty() || stream.windows().empty() ? stream.trouble()
                                                                 : stream.windows(0).waits_for();
}

std::string time_of(const v1::AgentStream& stream, std::uint64_t window) {
    return window == 0 ? "none" : window_time(window * stream.every_ms());
}

std::string committed_text(const v1::AgentStream& stream) {
    return has_committed(stream) ? duration_text(stream.committed_seconds_ago()) + " ago" : "";
}

std::string windows_table(const v1::AgentStream& stream) {
    Table table({{"WINDOW"},
                 {"STATE"},
                 {"JOINED", Align::kRight},
                 {"ENDED", Align::kRight},
                 {"MEMBERS", Align::kRight},
                 {"NOT ENDED BY"}});
    for (const v1::AgentWindow& window : stream.windows()) {
        const auto count = [&stream](std::uint32_t number) {
            return receives(stream) ? std::to_string(number) : std::string();
        };
        table.add({window_time(window.begins_ms()), window.state(), count(window.joined()),
                   count(window.ended()), count(window.members()), window.waits_for()});
    }
    return table.empty() ? "no window is open\n" : table.text();
}

std::string members_table(const v1::AgentStream& stream) {
    Table table({{"MEMBER"}, {"ID"}, {"FIRST WINDOW"}, {"LAST WINDOW"}, {"HEARD", Align::kRight}, {"STATE"}});
    for (const v1::AgentStreamMember& member : stream.members()) {
        table.add({member.name(), instance_text(member.member()), time_of(stream, member.first()),
                   member.last() == 0 ? "" : time_of(stream, member.last()),
                   duration_text(member.heard_seconds_ago()) + " ago",
                   member.lost()         ? "ended without leaving"
                   : member.last() != 0  ? "leaves"
                   : member.first() == 0 ? "comes"
                                         : ""});
    }
    return table.empty() ? "" : "\n" + table.text();
}

std::string oldest_part(const v1::AgentStream& stream) {
    if (stream.windows().empty()) {
        return "  No window is open.\n";
    }
    const v1::AgentWindow& oldest = stream.windows(0);
    const std::string name = "  Window " + window_time(oldest.begins_ms()) + " is ";
    if (!receives(stream)) {
        return name + (oldest.state() == "due" ? "due: its task is not open yet.\n" : "open.\n");
    }
    if (oldest.state() == "over") {
        return name + "over: its members have ended it, and its table is on its way to ask-recv's disk.\n";
    }
    return name + oldest.state() + ": of " + std::to_string(oldest.members()) + " that send to it " +
           std::to_string(oldest.joined()) + " have joined its run and " + std::to_string(oldest.ended()) +
           " have ended it" +
           (oldest.waits_for().empty() ? "" : "; those that have not: " + oldest.waits_for()) + ".\n";
}

std::string members_part(const v1::AgentStream& stream) {
    std::string text;
    for (const v1::AgentStreamMember& member : stream.members()) {
        const std::string ago = duration_text(member.heard_seconds_ago());
        if (member.lost()) {
            text +=
                "  " + member.name() +
                " has ended without leaving: start ask-send there with its --state, or it is left out after "
                "the deadline if ask-recv has --allow-incomplete.\n";
        } else if (member.heard_seconds_ago() >= kSilentSeconds) {
            text += "  " + member.name() + " has not been heard of for " + ago +
                    ": look at ask-send, ask-agentd and the link there.\n";
        }
    }
    return text;
}

std::string totals_part(const v1::AgentStream& stream) {
    std::string text = "  Since ask-recv opened it: " + grouped(stream.whole()) + " whole, " +
                       grouped(stream.incomplete()) + " incomplete and " + grouped(stream.empty()) +
                       " empty windows.\n";
    if (stream.incomplete() > 0) {
        text += "  windows.tsv in its directory names who is missing from the incomplete ones.\n";
    }
    if (stream.late() > 0) {
        text += "  " + grouped(stream.late()) +
                " time(s) a window lasted longer than that, because one before it was not committed.\n";
    }
    if (stream.failed_runs() > 0) {
        text += "  " + grouped(stream.failed_runs()) +
                " run(s) of windows failed and began again: the agent's log says why.\n";
    }
    return text;
}

Json json_of(const v1::AgentStream& stream) {
    Json json = to_json(stream);
    json["age_seconds"] = has_committed(stream) ? Json(stream.committed_seconds_ago()) : Json();
    json["waits_for"] = waits_for(stream);
    return json;
}

}  // namespace

std::vector<v1::AgentStream> all_streams(const v1::AgentStatus& status) {
    return {status.streams().begin(), status.streams().end()};
}

std::vector<v1::AgentStream> streams_named(const std::string& name, const v1::AgentStatus& status) {
    std::vector<v1::AgentStream> found = all_streams(status);
    std::erase_if(found, [&name](const v1::AgentStream& stream) { return stream.name() != name; });
    return found;
}

std::string streams_text(const std::vector<v1::AgentStream>& streams) {
    Table table({{"STREAM"},
                 {"ROLE"},
                 {"EVERY", Align::kRight},
                 {"STATE"},
                 {"COMMITTED", Align::kRight},
                 {"WINDOW"},
                 {"OPEN", Align::kRight},
                 {"MEMBERS", Align::kRight},
                 {"INCOMPLETE", Align::kRight},
                 {"WAITS FOR"}});
    for (const v1::AgentStream& stream : streams) {
        table.add({stream.name(), stream.role(), duration_text(every_seconds(stream)), stream.state(),
                   committed_text(stream),
                   stream.windows().empty() ? "" : window_time(stream.windows(0).begins_ms()),
                   std::to_string(stream.windows_size()),
                   receives(stream) ? std::to_string(stream.members_size()) : "",
                   receives(stream) ? grouped(stream.incomplete()) : "", waits_for(stream)});
    }
    return table.empty() ? "" : table.text();
}

std::string streams_text(const v1::AgentStatus& status) {
    return streams_text(all_streams(status));
}

Json streams_json(const std::vector<v1::AgentStream>& streams) {
    Json list = Json::array();
    for (const v1::AgentStream& stream : streams) {
        list.push_back(json_of(stream));
    }
    return list;
}

std::string stream_record_text(const v1::AgentStream& stream) {
    Table table({{"", Align::kLeft}, {"", Align::kLeft}});
    table.add({"stream", stream.name() + ", a window every " + duration_text(every_seconds(stream))});
    table.add({"role", stream.role() + (stream.peer().empty() ? "" : ", to " + stream.peer()) + ", of user " +
                           std::to_string(stream.user())});
    table.add({"state", stream.state()});
    table.add({"committed", time_of(stream, stream.committed()) +
                                (has_committed(stream) ? ", " + committed_text(stream) : "")});
    if (receives(stream)) {
        table.add({"whole", grouped(stream.whole())});
        table.add({"incomplete", grouped(stream.incomplete())});
        table.add({"empty", grouped(stream.empty())});
        table.add({"late", grouped(stream.late())});
        table.add({"failed runs", grouped(stream.failed_runs())});
    }
    if (!stream.trouble().empty()) {
        table.add({"trouble", stream.trouble()});
    }
    return table.text() + windows_table(stream) + members_table(stream);
}

std::string explain_stream(const v1::AgentStream& stream) {
    std::string text = "Stream " + stream.name() +
                       (receives(stream) ? ", received here" : ", sent from here to " + stream.peer()) +
                       ": a window every " + duration_text(every_seconds(stream)) + ", " + stream.state() +
                       "\n";
    text += "  Committed through window " + time_of(stream, stream.committed()) +
            (has_committed(stream) ? ", " + committed_text(stream) : "") + ".\n";
    text += oldest_part(stream);
    if (!stream.trouble().empty()) {
        text += "  In its way: " + stream.trouble() + ".\n";
    }
    text += members_part(stream);
    return text + (receives(stream) ? totals_part(stream) : "");
}

}  // namespace ask::cli
