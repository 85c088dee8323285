// SPDX-License-Identifier: Apache-2.0
#include "lib/control/switch/fetch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/tuples/back.h"
#include "lib/tuples/fetch_codec.h"

namespace ask {
namespace {

// Writes all that a walker finds; false: its reader is gone.
template <typename Walker>
Result<bool> stream(Walker& walker, std::size_t chunk_bytes,
                    const std::function<bool(std::string entries)>& write) {
    for (bool more = true; more;) {
        std::string entries;
        const auto filled = walker.fill(entries, chunk_bytes);
        ASK_PASS(filled);
        more = *filled;
        if (!entries.empty() && !write(std::move(entries))) {
            return false;
        }
    }
    return true;
}

// What both levels have, but for its first entries. How many entries; nothing: its reader is gone.
Result<std::optional<std::uint64_t>> stream(const FetchSource& source, std::uint64_t skip,
                                            std::size_t chunk_bytes,
                                            const std::function<bool(std::string entries)>& write) {
    if (source.region == nullptr) {
        return std::optional<std::uint64_t>(0);
    }
    CopyWalker walker(source.region->span(), source.layout, skip);
    const auto front = stream(walker, chunk_bytes, write);
    ASK_PASS(front);
    if (!*front) {
        return std::optional<std::uint64_t>();
    }
    std::uint64_t count = walker.count();
    for (unsigned group = 0; group < source.back.size(); ++group) {
        if (source.back[group] == nullptr) {
            continue;
        }
        BackWalker back(source.back[group]->bytes(), group, skip - std::min(skip, count));
        const auto written = stream(back, chunk_bytes, write);
        ASK_PASS(written);
        if (!*written) {
            return std::optional<std::uint64_t>();
        }
        count += back.count();
    }
    return std::optional(count);
}

// Below, to walk it twice costs more than a table that grows.
constexpr std::size_t kLeastMeasured = std::size_t{64} << 20U;

std::size_t memory_of(const FetchSource& source) {
    return std::accumulate(
        source.back.begin(), source.back.end(), std::size_t{0},
        [](std::size_t sum, const auto& view) { return sum + (view == nullptr ? 0 : view->bytes().size()); });
}

BackSize back_size(const FetchSource& source) {
    BackSize all;
    for (unsigned group = 0; group < source.back.size(); ++group) {
        if (source.back[group] != nullptr) {
            const BackSize size = measure_back(source.back[group]->bytes(), group);
            all.entries += size.entries;
            all.key_bytes += size.key_bytes;
        }
    }
    return all;
}

}  // namespace

Result<std::optional<FetchEnd>> fetch_copy(Controller& controller, const Caller& caller,
                                           const FetchRequest& request, std::size_t chunk_bytes,
                                           const std::function<bool(std::string entries)>& write,
                                           const std::function<void(const BackSize& size)>& announce) {
    const auto source = request.close ? controller.close_epoch(caller, request.region, request.epoch)
                                      : controller.begin_fetch(caller, request.region, request.epoch);
    ASK_PASS(source);
    // Who goes on with a fetch has made room.
    if (announce && request.skip == 0 && memory_of(*source) >= kLeastMeasured) {
        announce(back_size(*source));
    }
    auto streamed = stream(*source, request.skip, chunk_bytes, write);
    if (streamed.ok() && !*streamed) {
        return std::optional<FetchEnd>();
    }
    if (request.settled) {
        ASK_PASS(controller.settle());
    }
    // First: what is confirmed and blanked meanwhile may look like nothing that a sender writes.
    ASK_PASS(controller.end_fetch(*source));
    ASK_PASS(streamed);
    auto flows = controller.flow_reports(request.region.instance);
    ASK_PASS(flows);
    return std::optional(FetchEnd{
        .nonce = source->of.nonce, .epoch = source->epoch, .count = **streamed, .flows = std::move(*flows)});
}

}  // namespace ask
