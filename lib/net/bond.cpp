// SPDX-License-Identifier: Apache-2.0
#include "lib/net/bond.h"

#include <linux/if_bonding.h>

namespace ask {
namespace {

bool hashes(const InterfaceInfo& bond) {
    return bond.bond_mode == BOND_MODE_XOR || bond.bond_mode == BOND_MODE_8023AD;
}

}  // namespace

std::string native_trouble(const InterfaceInfo& bond) {
    if (!hashes(bond) && bond.bond_mode != BOND_MODE_ROUNDROBIN && bond.bond_mode != BOND_MODE_ACTIVEBACKUP) {
        return "is a bond of mode " + std::to_string(bond.bond_mode) +
               ": native XDP takes balance-rr, active-backup, balance-xor and 802.3ad: choose one of these, "
               "or "
               "set xdp_mode to generic";
    }
    if (hashes(bond) && bond.bond_policy == BOND_XMIT_POLICY_VLAN_SRCMAC) {
        return "is a bond that chooses members by vlan+srcmac, which native XDP does not take: choose "
               "another "
               "xmit_hash_policy, or set xdp_mode to generic";
    }
    return "";
}

std::vector<const InterfaceInfo*> members_of(const InterfaceInfo& bond,
                                             const std::vector<InterfaceInfo>& all) {
    std::vector<const InterfaceInfo*> members;
    for (const InterfaceInfo& one : all) {
        if (bond.kind == "bond" && one.master == bond.index) {
            members.insert(members.end(), &one);
        }
    }
    return members;
}

}  // namespace ask
