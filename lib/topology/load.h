// SPDX-License-Identifier: Apache-2.0
//
// Topologies as files: the only part of this library that reads any.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/placement/size_model.h"
#include "lib/topology/topology.h"

namespace ask::topology {

// `path`: a file, or "-" for standard input. `format`: "toml", "json", or "auto": by name, then by content.
// kInput: no such file, or what is in it is wrong, by line; kLimit: it is longer than kMaxDocumentBytes.
Result<Topology> load_topology(const std::string& path, std::string_view format = "auto");

// How long the topology's messages are; counts the words of a text if it says so, whose path is relative to
// the topology file's folder.
Result<placement::SizeModel> load_model(const Topology& topology);

}  // namespace ask::topology
