// SPDX-License-Identifier: Apache-2.0
#include "bench/common/results.h"

#include <fstream>

namespace ask::bench {

std::string to_csv(const std::vector<nlohmann::ordered_json>& rows) {
    std::string csv;
    for (const auto& row : rows) {
        std::string names;
        std::string values;
        for (const auto& [name, value] : row.items()) {
            names.append(names.empty() ? "" : ",").append(name);
            values.append(values.empty() ? "" : ",")
                .append(value.is_string() ? value.get<std::string>() : value.dump());
        }
        if (csv.empty()) {
            csv.append(names).append("\n");
        }
        csv.append(values).append("\n");
    }
    return csv;
}

Result<> write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    file.close();
    return file ? Result<>() : Error(Errc::kInternal, "cannot write " + path);
}

}  // namespace ask::bench
