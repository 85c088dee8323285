// SPDX-License-Identifier: Apache-2.0
//
// Takes members out of a document's table one by one, with checks of kind and range; at the end, whatever is
// left is an unknown key. Keeps the first error, so that a reader can be written without a branch a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/topology/document.h"

namespace ask::topology {

class TableReader {
 public:
    // `what` names the table in errors: "switch 'tor1'".
    TableReader(const Value& table, std::string source, std::string what);

    // Each does nothing if the key is absent or an error has happened before.
    void text(std::string_view key, std::string& out);
    void real(std::string_view key, double& out, double low, double high, std::string_view unit);
    void count(std::string_view key, std::uint64_t& out, std::uint64_t high);
    void flag(std::string_view key, bool& out);
    void names(std::string_view key, std::optional<std::vector<std::string>>& out);
    // The member itself, whatever its kind; null if absent.
    const Value* any(std::string_view key);
    // Fails unless the key is there.
    void require(std::string_view key);

    void rename(std::string what) { what_ = std::move(what); }
    void fail(std::uint32_t line, const std::string& text);

    // Ends the reading: the first error, or that of an unknown key.
    Result<> finish();

 private:
    const Value* take(std::string_view key);
    void fail_kind(std::string_view key, const Value& value, std::string_view want);

    const Value& table_;
    std::string source_;
    std::string what_;
    std::vector<std::string_view> known_;
    std::optional<Error> error_;
};

// The elements of an array of tables; one error for anything else.
Result<std::vector<const Value*>> tables_of(const Value* array, const std::string& source,
                                            std::string_view key);

}  // namespace ask::topology
