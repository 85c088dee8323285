// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "bench/allreduce/sockets.h"
#include "bench/allreduce/ways.h"

namespace ask::bench {
namespace {

// The vector is N parts. A member's stream to the next one is 2(N-1) parts, that of member r: r, r-1, r-2,
// ...; what it may send of the next part is what it has received of it.
class Ring final : public Way {
 public:
    Ring(const Work& work, UniqueFd next, UniqueFd previous)
        : work_(work), next_(std::move(next)), previous_(std::move(previous)), some_(kSome) {}

    Result<const std::byte*> reduce(std::byte* vector, std::size_t count) override {
        vector_ = vector;
        part_ = (count + work_.size - 1) / work_.size * size_of(work_.dtype);
        stream_ = 2 * (std::size_t{work_.size} - 1) * part_;
        sent_ = 0;
        received_ = 0;
        while (sent_ < stream_ || received_ < stream_) {
            ASK_PASS(turn());
        }
        return vector;
    }

 private:
    // Where byte `position` of the stream is that member `rank` sends.
    struct Place {
        std::byte* at;
        std::size_t length;  // up to the part's end
        bool is_sum;         // else to be added to
    };
    [[nodiscard]] Place place_of(unsigned rank, std::size_t position) const {
        const std::size_t step = position / part_;
        const std::size_t inside = position % part_;
        const std::size_t part = (rank + 2 * std::size_t{work_.size} - step) % work_.size;
        return {vector_ + part * part_ + inside, part_ - inside, step >= std::size_t{work_.size} - 1};
    }

    Result<> turn() {
        const std::size_t may_send = std::min(stream_, part_ + received_);
        std::array<pollfd, 2> fds = {{{received_ < stream_ ? previous_.get() : -1, POLLIN, 0},
                                      {sent_ < may_send ? next_.get() : -1, POLLOUT, 0}}};
        ASK_PASS(wait_for(fds, work_.deadline_seconds));
        if (fds[0].revents != 0) {
            ASK_PASS(receive());
        }
        return fds[1].revents != 0 ? send(may_send) : Result<>();
    }

    Result<> send(std::size_t may_send) {
        const Place from = place_of(work_.rank, sent_);
        const auto sent =
            write_some(next_.get(), std::span(from.at, std::min(from.length, may_send - sent_)));
        ASK_PASS(sent);
        sent_ += *sent;
        return {};
    }

    Result<> receive() {
        const Place to = place_of((work_.rank + work_.size - 1) % work_.size, received_);
        if (to.is_sum) {
            const auto got = read_some(previous_.get(), std::span(to.at, to.length));
            ASK_PASS(got);
            received_ += *got;
            return {};
        }
        // An element may have come in part: it stays in front until it is whole.
        const auto got = read_some(previous_.get(),
                                   std::span(some_).first(std::min(some_.size(), to.length)).subspan(carry_));
        ASK_PASS(got);
        const std::size_t bytes = carry_ + *got;
        carry_ = bytes % size_of(work_.dtype);
        add(work_.dtype, to.at, some_.data(), bytes - carry_);
        std::memmove(some_.data(), some_.data() + bytes - carry_, carry_);
        received_ += bytes - carry_;
        return {};
    }

    Work work_;
    UniqueFd next_;
    UniqueFd previous_;
    std::vector<std::byte> some_;
    std::byte* vector_ = nullptr;
    std::size_t part_ = 0;    // bytes
    std::size_t stream_ = 0;  // bytes, sent and received alike
    std::size_t sent_ = 0;
    std::size_t received_ = 0;  // of sums; else of whole elements
    std::size_t carry_ = 0;     // bytes of an element that has come in part
};

}  // namespace

Result<std::unique_ptr<Way>> join_ring(const Work& work, const TcpPeers& peers) {
    auto listener = listen_on(peers.hosts[work.rank], peers.port, 1);
    ASK_PASS(listener);
    auto next = connect_to(peers.hosts[(work.rank + 1) % work.size], peers.port, work.deadline_seconds);
    ASK_PASS(next);
    ASK_PASS(introduce(next->get(), work.rank));
    auto previous = accept_from(listener->get(), work.deadline_seconds);
    ASK_PASS(previous);
    return std::unique_ptr<Way>(std::make_unique<Ring>(work, std::move(*next), std::move(previous->fd)));
}

}  // namespace ask::bench
