// SPDX-License-Identifier: Apache-2.0
//
// Calls of ask.hpp that must fail.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include "lib/ask/ask.hpp"

namespace ask::test {

// The text, if it fails with this code.
template <typename Body>
std::string fails(Code code, const Body& body) {
    try {
        body();
    } catch (const Error& error) {
        CHECK(error.code() == code);
        return error.what();
    }
    FAIL("should have failed");
    return "";
}

}  // namespace ask::test
