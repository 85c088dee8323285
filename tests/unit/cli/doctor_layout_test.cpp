// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "tools/cli/doctor/layout.h"

using namespace ask::cli::doctor;
namespace fs = std::filesystem;

namespace {

// A /sys and a /proc as kernels have them.
class MadeMachine {
 public:
    MadeMachine() {
        std::string name = fs::temp_directory_path() / "ask-layout.XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        root_ = name;
    }
    ~MadeMachine() { fs::remove_all(root_); }
    MadeMachine(const MadeMachine&) = delete;
    MadeMachine& operator=(const MadeMachine&) = delete;

    [[nodiscard]] const fs::path& root() const { return root_; }
    void file(const fs::path& path, const std::string& text) const {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text << "\n";
    }
    // The folder of an interface leads to its device's, as in sysfs by a link.
    void interface(const std::string& name, const fs::path& device) const {
        fs::create_directories(root_ / device);
        fs::create_directories(root_ / "sys/class/net" / name);
        fs::create_symlink(root_ / device, root_ / "sys/class/net" / name / "device");
    }

 private:
    fs::path root_;
};

}  // namespace

TEST_CASE("lists of CPUs are read as the kernel writes them, and written so") {
    CHECK(parse_cpus("0-3,8") == Cpus{0, 1, 2, 3, 8});
    CHECK(cpus_text({0, 1, 2, 3, 8}) == "0-3,8");
    CHECK(parse_cpus("5") == Cpus{5});
    CHECK(cpus_text({}).empty());
    for (const char* const odd : {"", "x", "1-", "-1", "3-1", "0,,1", "0-4294967295", "1 2", "0-3\n"}) {
        CAPTURE(odd);
        CHECK(parse_cpus(odd).empty());
    }
}

TEST_CASE("a card's node and who serves its interrupts") {
    const MadeMachine machine;
    machine.interface("eth0", "sys/devices/pci0000:80/0000:81:00.0");
    machine.file("sys/devices/pci0000:80/0000:81:00.0/numa_node", "1");
    machine.file("sys/devices/pci0000:80/0000:81:00.0/msi_irqs/70", "msix");
    machine.file("sys/devices/pci0000:80/0000:81:00.0/msi_irqs/71", "msix");
    machine.file("sys/devices/pci0000:80/0000:81:00.0/msi_irqs/72", "msix");
    machine.file("proc/irq/70/effective_affinity_list", "12");
    machine.file("proc/irq/70/smp_affinity_list", "8-15");
    machine.file("proc/irq/71/effective_affinity_list", "");  // not every interrupt controller has it
    machine.file("proc/irq/71/smp_affinity_list", "8-15");
    const CardLayout card = look_at_card("eth0", machine.root());
    CHECK(card.node == 1);
    // 72 is nobody's yet.
    CHECK(card.interrupts == std::vector<Cpus>{{8, 9, 10, 11, 12, 13, 14, 15}, {12}});
    CHECK_FALSE(card.defers);
}

TEST_CASE("interrupts wait for who polls if both settings are made") {
    const MadeMachine machine;
    machine.interface("eth0", "sys/devices/pci0000:80/0000:81:00.0");
    machine.file("sys/class/net/eth0/napi_defer_hard_irqs", "2");
    machine.file("sys/class/net/eth0/gro_flush_timeout", "0");
    CHECK_FALSE(look_at_card("eth0", machine.root()).defers);
    machine.file("sys/class/net/eth0/gro_flush_timeout", "200000");
    CHECK(look_at_card("eth0", machine.root()).defers);
}

TEST_CASE("of virtio it is the device above that is the card") {
    const MadeMachine machine;
    machine.interface("eth0", "sys/devices/pci0000:00/0000:00:02.0/virtio1");
    machine.file("sys/devices/pci0000:00/0000:00:02.0/numa_node", "-1");
    machine.file("sys/devices/pci0000:00/0000:00:02.0/msi_irqs/25", "msix");
    machine.file("proc/irq/25/effective_affinity_list", "1");
    const CardLayout card = look_at_card("eth0", machine.root());
    CHECK(card.node == -1);
    CHECK(card.interrupts == std::vector<Cpus>{{1}});
}

TEST_CASE("an interface without a card, and a machine without nodes, have nothing to be laid out") {
    const MadeMachine machine;
    fs::create_directories(machine.root() / "sys/class/net/veth0");
    CHECK(look_at_card("veth0", machine.root()).node == -1);
    CHECK(look_at_card("veth0", machine.root()).interrupts.empty());
    CHECK(look_at_card("none", machine.root()).interrupts.empty());
    CHECK(look_at_nodes(machine.root()).empty());
    CHECK(cpus_of_process("1", machine.root()).empty());
}

TEST_CASE("nodes by their numbers, and a process by its mask") {
    const MadeMachine machine;
    machine.file("sys/devices/system/node/node0/cpulist", "0-7");
    machine.file("sys/devices/system/node/node1/cpulist", "8-15");
    machine.file("sys/devices/system/node/has_cpu", "0-1");
    machine.file("sys/devices/system/node/node99999999/cpulist", "1");
    machine.file("proc/7/status", "Name:\task-agentd\nCpus_allowed:\tff00\nCpus_allowed_list:\t8-15");
    const auto nodes = look_at_nodes(machine.root());
    REQUIRE(nodes.size() == 2);
    CHECK(cpus_text(nodes[0]) == "0-7");
    CHECK(cpus_text(nodes[1]) == "8-15");
    CHECK(cpus_text(cpus_of_process("7", machine.root())) == "8-15");
}
