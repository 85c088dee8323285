// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/load.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>
#include <vector>

#include "lib/topology/document.h"
#include "lib/topology/packet_list.h"

namespace ask::topology {
namespace {

Result<std::string> read_all(const std::string& path, std::size_t limit) {
    std::ifstream file;
    std::error_code ignored;
    if (path != "-" && std::filesystem::is_directory(path, ignored)) {
        return Error(Errc::kInput, path + ": is a directory");
    }
    if (path != "-") {
        file.open(path, std::ios::binary);
        if (!file && (errno == ENOENT || errno == ENOTDIR)) {
            return Error(Errc::kInput, path + ": no such file");
        }
        if (!file) {
            return Error::from_errno(errno, "read " + path);
        }
    }
    std::istream& in = path == "-" ? std::cin : file;
    std::string text;
    std::vector<char> chunk(std::size_t{64} << 10);
    while (text.size() <= limit &&
           in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())).gcount() > 0) {
        text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    }
    if (in.bad()) {
        return Error(Errc::kInternal, "read " + path + ": the stream broke");
    }
    if (text.size() > limit) {
        return Error(Errc::kLimit, path + " is longer than " + std::to_string(limit) + " bytes");
    }
    return text;
}

}  // namespace

Result<Topology> load_topology(const std::string& path, std::string_view format) {
    const auto text = read_all(path, kMaxDocumentBytes);
    ASK_PASS(text);
    const std::string name = path == "-" ? "stdin" : path;
    const Format as = format == "json"   ? Format::kJson
                      : format == "toml" ? Format::kToml
                                         : guess_format(*text, name);
    const auto document = as == Format::kJson ? read_json(*text, name) : read_toml(*text, name);
    ASK_PASS(document);
    return read_topology(*document, name);
}

Result<placement::SizeModel> load_model(const Topology& topology) {
    if (topology.message.model) {
        return *topology.message.model;
    }
    constexpr std::size_t kMostText = std::size_t{1} << 30;
    constexpr std::uint32_t kRounds = 5;
    std::string path = topology.message.text_file;
    const auto slash = topology.source.find_last_of('/');
    if (path.front() != '/' && slash != std::string::npos) {
        path = topology.source.substr(0, slash + 1) + path;
    }
    const auto text = read_all(path, kMostText);
    ASK_PASS(text);
    const std::uint32_t shards = topology.message.shards;
    auto points = [&] {
        if (!topology.message.geometry) {
            return placement::measure_word_count(*text, shards, kRounds, 1);
        }
        PacketList list(*topology.message.geometry);
        return placement::measure_word_count(*text, shards, kRounds, 1, list);
    }();
    ASK_TRY(points, path);
    return placement::SizeModel::measured(std::move(*points));
}

}  // namespace ask::topology
