// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/member_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "lib/base/random.h"
#include "tools/cli/names.h"
#include "tools/cli/output_file.h"
#include "tools/cli/to_json.h"

namespace ask::cli {
namespace {

constexpr int kMemberVersion = 1;

Json json_of(const FilePlace& place) {
    return {
        {"device", place.device}, {"inode", place.inode}, {"offset", place.offset}, {"print", place.print}};
}

Json json_of(const std::vector<FilePlace>& places) {
    Json all = Json::array();
    for (const FilePlace& place : places) {
        all.push_back(json_of(place));
    }
    return all;
}

FilePlace place_from(const Json& json) {
    return {.device = json.at("device").get<std::uint64_t>(),
            .inode = json.at("inode").get<std::uint64_t>(),
            .offset = json.at("offset").get<std::uint64_t>(),
            .print = json.value("print", std::uint64_t{0})};
}

std::vector<FilePlace> places_from(const Json& json) {
    std::vector<FilePlace> places;
    places.reserve(json.size());
    for (const Json& place : json) {
        places.push_back(place_from(place));
    }
    return places;
}

std::uint64_t number_from(const Json& json) {
    const auto text = json.get<std::string>();
    std::uint64_t number = 0;
    if (text.starts_with("0x")) {
        std::from_chars(text.data() + 2, text.data() + text.size(), number, 16);
    }
    return number;
}

}  // namespace

Result<MemberState> MemberState::open(const std::string& path, const std::string& stream,
                                      const std::string& input) {
    MemberState state;
    state.path_ = path;
    state.stream_ = stream;
    state.input_ = input;
    const std::string lock = path + ".lock";
    state.lock_.reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!state.lock_) {
        return Error(Errc::kUsage, Error::from_errno(errno, "--state " + lock).text());
    }
    if (::flock(state.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
        return Error(Errc::kExists, "--state " + path + ": another ask-send is this member: end that one");
    }
    std::ifstream file(path, std::ios::binary);
    if (!file && ::access(path.c_str(), F_OK) == 0) {
        return Error(Errc::kDenied, "--state " + path + ": cannot be read");
    }
    if (file) {
        std::ostringstream text;
        text << file.rdbuf();
        ASK_PASS(state.read(text.str()));
        return state;
    }
    state.member_ = random_u64();
    return state;
}

Result<> MemberState::read(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    try {
        if (json.at("version").get<int>() != kMemberVersion) {
            return Error(Errc::kUnsupported, "--state " + path_ + ": is of another release");
        }
        if (!is_sealed(json)) {
            return damaged(text);
        }
        const auto stream = json.at("stream").get<std::string>();
        const auto input = json.at("input").get<std::string>();
        if (stream != stream_ || input != input_) {
            return Error(Errc::kUsage, "--state " + path_ + ": is of " + input + " into " + stream +
                                           ", not of " + input_ + " into " + stream_);
        }
        member_ = number_from(json.at("member"));
        nonce_ = number_from(json.at("nonce"));
        committed_ = json.at("committed").get<std::uint64_t>();
        inside_ = json.at("inside").get<std::uint64_t>();
        place_ = place_from(json.at("place"));
        for (const Json& window : json.at("windows")) {
            windows_.push_back({.number = window.at("number").get<std::uint64_t>(),
                                .from = place_from(window.at("from")),
                                .to = place_from(window.at("to")),
                                .left = places_from(window.value("left", Json::array()))});
        }
    } catch (const Json::exception&) {
        return damaged(text);
    }
    return member_ == 0 ? Result<>(damaged(text)) : Result<>();
}

// Which lines were sent is known to nobody then.
Error MemberState::damaged(const std::string& text) const {
    return {Errc::kInput, "--state " + path_ + " is damaged: it " + damage_of(text) + ". Which lines of " +
                              input_ +
                              " are in windows that are committed, windows.tsv and their tables say alone. "
                              "Remove it to send that file from its beginning, by a member anew"};
}

Result<> MemberState::store() const {
    Json windows = Json::array();
    for (const WindowLines& window : windows_) {
        windows.push_back({{"number", window.number},
                           {"from", json_of(window.from)},
                           {"to", json_of(window.to)},
                           {"left", json_of(window.left)}});
    }
    const Json json = {{"version", kMemberVersion},
                       {"stream", stream_},
                       {"input", input_},
                       {"member", instance_text(member_)},
                       {"nonce", instance_text(nonce_)},
                       {"committed", committed_},
                       {"inside", inside_},
                       {"place", json_of(place_)},
                       {"windows", std::move(windows)}};
    auto file = OutputFile::create("--state", path_);
    ASK_PASS(file);
    return file->write(sealed(json), true);
}

Result<> MemberState::begin(const FilePlace& place) {
    place_ = place;
    return store();
}

Result<> MemberState::step(const client::StreamStep& step, const FilePlace& place,
                           std::vector<FilePlace> left) {
    if (step.ended != 0) {
        windows_.push_back({.number = step.ended, .from = place_, .to = place, .left = std::move(left)});
    }
    std::erase_if(windows_, [&step](const WindowLines& window) { return window.number <= step.committed; });
    inside_ = step.entered;
    place_ = place;
    nonce_ = step.nonce;
    committed_ = step.committed;
    return store();
}

Result<> MemberState::leave(const FilePlace& place) {
    member_ = random_u64();
    nonce_ = 0;
    committed_ = 0;
    inside_ = 0;
    windows_.clear();
    place_ = place;
    return store();
}

}  // namespace ask::cli
