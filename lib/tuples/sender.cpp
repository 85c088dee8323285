// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/sender.h"

#include <cstddef>

namespace ask {

void add(SenderStats& sum, const SenderStats& part) {
    sum.packets_sent += part.packets_sent;
    sum.packets_data += part.packets_data;
    sum.packets_long += part.packets_long;
    sum.packets_var += part.packets_var;
    sum.payload_bytes += part.payload_bytes;
    sum.packets_acked_by_switch += part.packets_acked_by_switch;
    sum.packets_acked_by_receiver += part.packets_acked_by_receiver;
    sum.retransmissions += part.retransmissions;
    sum.acks_ignored += part.acks_ignored;
    sum.acks_bad += part.acks_bad;
    sum.ecn_echoes += part.ecn_echoes;
    sum.packer.tuples_in += part.packer.tuples_in;
    sum.packer.slots_filled += part.packer.slots_filled;
    sum.packer.slots_offered += part.packer.slots_offered;
    sum.packer.tuples_long += part.packer.tuples_long;
    sum.packer.tuples_var += part.packer.tuples_var;
    for (std::size_t i = 0; i < sum.packer.bodies.size(); ++i) {
        sum.packer.bodies[i] += part.packer.bodies[i];
    }
    sum.tuples_merged += part.tuples_merged;
}

}  // namespace ask
