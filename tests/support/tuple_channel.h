// SPDX-License-Identifier: Apache-2.0
//
// A sending channel and the packer of its task in one, as a worker of the agent keeps them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/tuples/sender.h"

namespace ask::test {

class TupleChannel : public SenderChannel {
 public:
    TupleChannel(ChannelId id, std::uint32_t incarnation, const SenderConfig& config)
        : SenderChannel(id, incarnation, config), config_(config) {}

    // `hold` (0: as configured) overrides the configuration for this task.
    Result<> begin(const FlowParams& flow, std::uint32_t hold, Nanos now) {
        if (!idle()) {
            return SenderChannel::begin(flow, *packer_, now);
        }
        PackerConfig packing = packer_config(flow, config_);
        packing.hold = hold > 0 ? hold : packing.hold;
        ASK_TRY(check(packing), "task instance " + std::to_string(flow.instance));
        packer_.emplace(packing);
        auto begun = SenderChannel::begin(flow, *packer_, now);
        if (!begun) {
            packer_.reset();
        }
        return begun;
    }
    [[nodiscard]] bool has_room() const { return packer_ && !finished_ && packer_->has_room(); }
    void offer(std::string_view key, std::int64_t value) { packer_->add(key, value); }
    void finish() {
        SenderChannel::finish();
        finished_ = true;
    }
    SenderStats end() {
        SenderStats last = stats();
        SenderChannel::end();
        forget();
        return last;
    }
    SenderStats abandon(std::uint32_t new_incarnation) {
        SenderStats last = stats();
        SenderChannel::abandon(new_incarnation);
        forget();
        return last;
    }
    [[nodiscard]] SenderStats stats() const {
        return {SenderChannel::stats(), packer_ ? packer_->stats() : PackerStats{}, 0};
    }

 private:
    void forget() {
        packer_.reset();
        finished_ = false;
    }

    SenderConfig config_;
    std::optional<Packer> packer_;
    bool finished_ = false;
};

}  // namespace ask::test
