// SPDX-License-Identifier: Apache-2.0
//
// Shell completion, made of the same flags as --help.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "lib/base/result.h"

namespace ask {

// A script that completes the flags and commands of `app` in bash, zsh or fish. kUsage: no such shell is
// known.
Result<std::string> completion_script(const CLI::App& app, const std::string& shell);

}  // namespace ask
