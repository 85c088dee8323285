// SPDX-License-Identifier: Apache-2.0
//
// A key as error messages show it.
#pragma once

#include <string>
#include <string_view>

namespace ask {

// At most 64 bytes of `key` in quotes, everything but printable ASCII as \xHH.
std::string quote_key(std::string_view key);

}  // namespace ask
