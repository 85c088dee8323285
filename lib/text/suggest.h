// SPDX-License-Identifier: Apache-2.0
//
// What somebody may have meant who typed a name that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ask {

// How many letters have to be put in, taken out, replaced or swapped with their neighbour to make one of the
// other.
[[nodiscard]] unsigned edit_distance(std::string_view a, std::string_view b);

// The name that is nearest to `typed`, the first of several; empty if none is near: a third of its letters
// may differ, and at most three.
[[nodiscard]] std::string closest_name(std::string_view typed, const std::vector<std::string>& names);

// ": did you mean NAME?", or nothing if no name is near. `prefix` is put before the name.
[[nodiscard]] std::string suggestion(std::string_view typed, const std::vector<std::string>& names,
                                     std::string_view prefix = "");

}  // namespace ask
