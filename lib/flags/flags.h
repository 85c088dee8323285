// SPDX-License-Identifier: Apache-2.0
//
// How every command and daemon reads its command line: what --help and --version print, and what a bad one
// says.
#pragma once

#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include "lib/base/result.h"

namespace ask {

// Adds --version and --completion to `app`, which has a name, and reads the command line. False: one of these
// or
// --help was asked for and printed. kUsage: what was typed, what is nearest to it, and where to look.
Result<bool> read_command_line(CLI::App& app, int argc, const char* const* argv);

}  // namespace ask
