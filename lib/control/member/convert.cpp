// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/convert.h"

#include "lib/net/frame.h"

namespace ask {

void set_sender_part(v1::FlowStats& stats, const SenderStats& sender, std::uint32_t host) {
    const auto& bodies = sender.packer.bodies;
    std::size_t used = bodies.size();
    while (used > 0 && bodies[used - 1] == 0) {
        --used;
    }
    stats.mutable_packets_by_tuples()->Assign(bodies.begin(),
                                              bodies.begin() + static_cast<std::ptrdiff_t>(used));
    stats.set_tuples_in(sender.packer.tuples_in + sender.tuples_merged);
    stats.set_tuples_merged(sender.tuples_merged);
    stats.set_tuples_sent(sender.packer.tuples_in);
    stats.set_packets_sent(sender.packets_sent);
    stats.set_packets_acked_by_switch(sender.packets_acked_by_switch);
    stats.set_retransmissions(sender.retransmissions);
    stats.set_slots_filled(sender.packer.slots_filled);
    stats.set_slots_offered(sender.packer.slots_offered);
    stats.set_packets_data(sender.packets_data);
    stats.set_packets_long(sender.packets_long);
    stats.set_packets_var(sender.packets_var);
    stats.set_frame_bytes(sender.payload_bytes +
                          sender.packets_sent * (kEthernetBytes + packet_header_bytes(host)));
    stats.set_tuples_whole(sender.packer.tuples_var);
}

void set_receiver_part(v1::FlowStats& stats, const FlowRxStats& receiver) {
    stats.set_tuples_long(receiver.items_long);
    stats.set_tuples_data(receiver.items_data);
    stats.set_tuples_var(receiver.items_var);
    stats.set_packets_received(receiver.packets_accepted);
    stats.set_packets_duplicate(receiver.packets_duplicate);
}

}  // namespace ask
