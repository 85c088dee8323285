// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/idle.h"

#include "lib/rpc/types.h"

namespace ask::cli {
namespace {

// Beyond, a count is easier to read, and --json has them all.
constexpr int kMostIds = 4;

std::string stake_text(const v1::Stake& stake) {
    std::string text =
        std::to_string(stake.ids_size()) + " " + stake.what() + (stake.ids_size() == 1 ? "" : "s");
    text += " (";
    for (int at = 0; at < stake.ids_size() && at < kMostIds; ++at) {
        text += (at == 0 ? "" : ", ") + stake.ids(at);
    }
    return text + (stake.ids_size() > kMostIds ? ", ...)" : ")");
}

bool counts(const Standing& daemon, const v1::Stake& stake, const IdleQuestion& question) {
    return question.wire_version != daemon.upkeep.wire_version() &&
           !(question.restart && stake.survives_restart());
}

std::string stakes_text(const Standing& daemon, const IdleQuestion& question, bool in_way) {
    std::string text;
    for (const v1::Stake& stake : daemon.upkeep.stakes()) {
        if (counts(daemon, stake, question) == in_way) {
            text += (text.empty() ? "" : ", ") + stake_text(stake);
        }
    }
    return text;
}

}  // namespace

std::string in_the_way(const Standing& daemon, const IdleQuestion& question) {
    return stakes_text(daemon, question, true);
}

Result<> check_said(const Standing& daemon, const IdleQuestion& question) {
    if (daemon.upkeep.wire_version() == 0) {
        return Error(Errc::kUnsupported, daemon.who + ": is of a release (" + daemon.version +
                                             ") that does not say what it has: askctl tasks lists what runs");
    }
    const bool matters = question.wire_version != daemon.upkeep.wire_version();
    if (!daemon.upkeep.whole() && matters && in_the_way(daemon, question).empty()) {
        return Error(Errc::kDenied,
                     daemon.who +
                         ": shows its callers what is theirs, and others may have more: ask as root on "
                         "its machine, or with an operator's certificate (askctl ca issue --operator)");
    }
    return {};
}

std::string idle_text(const std::vector<Standing>& daemons, const IdleQuestion& question) {
    std::string text;
    for (const Standing& daemon : daemons) {
        const std::string busy = in_the_way(daemon, question);
        const std::string others = stakes_text(daemon, question, false);
        text += daemon.who + ": " + (busy.empty() ? "idle" : busy);
        text += others.empty() ? "" : "; not in the way: " + others;
        text += "; version " + daemon.version + ", packets of " +
                wire_version_name(daemon.upkeep.wire_version()) + "\n";
    }
    return text;
}

Json idle_json(const std::vector<Standing>& daemons, const IdleQuestion& question) {
    Json list = Json::array();
    for (const Standing& daemon : daemons) {
        Json one = Json::object();
        one["daemon"] = daemon.who;
        one["version"] = daemon.version;
        one["idle"] = in_the_way(daemon, question).empty();
        one.update(to_json(daemon.upkeep));
        list.push_back(std::move(one));
    }
    return list;
}

}  // namespace ask::cli
