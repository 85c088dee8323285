// SPDX-License-Identifier: Apache-2.0
//
// The switch's directory under bpffs: what is where, and who may change it.
//
//   progs/{switch,fan_copy}  links/<port>  maps/<map>  tasks/<instance>/{region,heat,meta}
//   tasks/by-name/<tenant>/<id> -> ../../<instance>; for a task without a tenant <tenant> is @
//
// maps/meta is pinned last on load, and tasks/<instance>/meta last when a task opens and unpinned first when
// it closes: what has no meta is half made or half removed, and a successor undoes it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

class PinDir {
 public:
    // Makes the directory, which nobody else may look into, and locks it for as long as this lives. kExists:
    // another ask-switchd has it; kDenied: it is another user's; kUnsupported: `bpffs` is no bpffs.
    static Result<PinDir> lock(const std::filesystem::path& bpffs, const std::string& name);
    // To look at, whoever has it.
    static PinDir look(const std::filesystem::path& bpffs, const std::string& name) {
        return {bpffs / name, UniqueFd()};
    }

    [[nodiscard]] const std::filesystem::path& root() const { return root_; }
    [[nodiscard]] std::filesystem::path program() const { return root_ / "progs" / "switch"; }
    [[nodiscard]] std::filesystem::path fan_program() const { return root_ / "progs" / "fan_copy"; }
    [[nodiscard]] std::filesystem::path map(std::string_view name) const { return root_ / "maps" / name; }
    [[nodiscard]] std::filesystem::path task(std::string_view pins) const { return root_ / "tasks" / pins; }
    // Links to them, by the tenant's name and the task's.
    [[nodiscard]] std::filesystem::path task_names() const { return root_ / "tasks" / kNames; }
    [[nodiscard]] std::filesystem::path task_name(std::string_view tenant, std::string_view id) const {
        return task_names() / (tenant.empty() ? kNoTenant : tenant) / id;
    }
    // bpffs takes no dots in names, interfaces do: '.' is written %2e.
    [[nodiscard]] std::filesystem::path link(std::string_view port) const;

    // Ports that have a link here, maps that are pinned, and tasks that have a directory.
    [[nodiscard]] Result<std::vector<std::string>> linked_ports() const;
    [[nodiscard]] Result<std::vector<std::string>> map_names() const;
    [[nodiscard]] Result<std::vector<std::string>> task_pins() const;
    // Makes progs, links, maps and tasks.
    [[nodiscard]] Result<> make_directories() const;
    // Removes everything in it. The program is off all ports before anything else goes, so that no packet
    // meets a half-removed switch. May be repeated.
    [[nodiscard]] Result<> remove_contents() const;
    // The same, and the directory itself.
    [[nodiscard]] Result<> remove_all() const;

 private:
    PinDir(std::filesystem::path root, UniqueFd lock) : root_(std::move(root)), lock_(std::move(lock)) {}

    static constexpr std::string_view kNames = "by-name";
    static constexpr std::string_view kNoTenant = "@";  // no tenant has that name

    std::filesystem::path root_;
    UniqueFd lock_;
};

}  // namespace ask
