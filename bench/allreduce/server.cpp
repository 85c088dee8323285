// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "bench/allreduce/sockets.h"
#include "bench/allreduce/traffic.h"
#include "bench/allreduce/ways.h"

namespace ask::bench {
namespace {

class Push final : public Way {
 public:
    Push(const Work& work, UniqueFd server) : work_(work), server_(std::move(server)) {}

    // The sum comes over what it was made of: never of a byte that has not been sent.
    Result<const std::byte*> reduce(std::byte* vector, std::size_t count) override {
        const std::size_t bytes = count * size_of(work_.dtype);
        std::size_t sent = 0;
        std::size_t received = 0;
        while (received < bytes) {
            pollfd waiting{server_.get(), static_cast<short>(sent < bytes ? POLLIN | POLLOUT : POLLIN), 0};
            ASK_PASS(wait_for(std::span(&waiting, 1), work_.deadline_seconds));
            if ((waiting.revents & ~POLLOUT) != 0) {
                const auto got = read_some(server_.get(), std::span(vector + received, sent - received));
                ASK_PASS(got);
                received += *got;
            }
            if ((waiting.revents & POLLOUT) != 0) {
                const auto went = write_some(server_.get(), std::span(vector + sent, bytes - sent));
                ASK_PASS(went);
                sent += *went;
            }
        }
        return vector;
    }

 private:
    Work work_;
    UniqueFd server_;
};

// One sum: what has come of each member's vector, and what has gone back.
class Sum {
 public:
    Sum(Dtype dtype, std::size_t bytes, std::size_t members)
        : dtype_(dtype), sum_(bytes), came_(members), went_(members) {}

    [[nodiscard]] std::size_t missing(std::size_t member) const { return sum_.size() - came_[member]; }
    // Of whole elements. Who is ahead of all finds nothing there to add to.
    void take(std::size_t member, std::span<const std::byte> bytes) {
        std::size_t& at = came_[member];
        const std::size_t added = std::min(bytes.size(), first_ - at);
        add(dtype_, &sum_[at], bytes.data(), added);
        std::ranges::copy(bytes.subspan(added), sum_.begin() + static_cast<std::ptrdiff_t>(at + added));
        at += bytes.size();
        first_ = std::max(first_, at);
    }
    [[nodiscard]] std::span<const std::byte> ready(std::size_t member) const {
        const std::size_t whole = *std::ranges::min_element(came_);
        return std::span(sum_).subspan(went_[member], whole - went_[member]);
    }
    void gone(std::size_t member, std::size_t bytes) { went_[member] += bytes; }
    [[nodiscard]] bool over(std::size_t member) const { return went_[member] == sum_.size(); }

 private:
    Dtype dtype_;
    std::vector<std::byte> sum_;
    std::vector<std::size_t> came_;
    std::vector<std::size_t> went_;
    std::size_t first_ = 0;  // most that has come of any
};

class Server {
 public:
    Server(const Work& work, std::vector<UniqueFd> members)
        : work_(work),
          members_(std::move(members)),
          carries_(members_.size()),
          some_(kSome),
          sums_{make_sum(0), make_sum(1)},
          at_(members_.size()) {}

    // Two sums are enough: who has begun the next one has this one's result. What went over the link from the
    // first timed run on to the last one's end.
    Result<Traffic> run() {
        Traffic link;
        for (unsigned all = 0; all < work_.operations();) {
            ASK_PASS(turn(work_.operations()));
            const unsigned now = *std::ranges::min_element(at_);
            if (all < 3 && now >= 3) {
                link = traffic();
            }
            if (all < work_.long_operations() && now >= work_.long_operations()) {
                link = traffic() - link;
            }
            all = now;
        }
        return link;
    }

 private:
    [[nodiscard]] Sum make_sum(unsigned operation) const {
        return {work_.dtype, work_.count_of(operation) * size_of(work_.dtype), members_.size()};
    }

    Result<> turn(unsigned operations) {
        std::vector<pollfd> fds;
        fds.reserve(members_.size());
        for (std::size_t i = 0; i < members_.size(); ++i) {
            Sum& sum = sums_[at_[i] % 2];
            const bool reads = at_[i] < operations && sum.missing(i) > 0;
            const bool writes = at_[i] < operations && !sum.ready(i).empty();
            const int events = (reads ? POLLIN : 0) | (writes ? POLLOUT : 0);
            fds.push_back({events != 0 ? members_[i].get() : -1, static_cast<short>(events), 0});
        }
        ASK_PASS(wait_for(fds, work_.deadline_seconds));
        for (std::size_t i = 0; i < members_.size(); ++i) {
            if ((fds[i].revents & ~POLLOUT) != 0) {
                ASK_PASS(receive(i));
            }
            if ((fds[i].revents & POLLOUT) != 0) {
                ASK_PASS(send(i));
            }
        }
        return {};
    }

    Result<> receive(std::size_t member) {
        Sum& sum = sums_[at_[member] % 2];
        std::array<std::byte, 8>& carry = carries_[member].bytes;
        std::size_t& carried = carries_[member].size;
        std::memcpy(some_.data(), carry.data(), carried);
        const std::size_t room = std::min(some_.size(), sum.missing(member));
        const auto got = read_some(members_[member].get(), std::span(some_).first(room).subspan(carried));
        ASK_PASS(got);
        const std::size_t bytes = carried + *got;
        carried = bytes % size_of(work_.dtype);
        sum.take(member, std::span(some_).first(bytes - carried));
        std::memcpy(carry.data(), some_.data() + bytes - carried, carried);
        return {};
    }

    Result<> send(std::size_t member) {
        Sum& sum = sums_[at_[member] % 2];
        const auto sent = write_some(members_[member].get(), sum.ready(member));
        ASK_PASS(sent);
        sum.gone(member, *sent);
        if (!sum.over(member)) {
            return {};
        }
        const unsigned operation = at_[member]++;
        if (*std::ranges::min_element(at_) > operation) {
            sums_[operation % 2] = make_sum(operation + 2);
        }
        return {};
    }

    struct Carry {
        std::array<std::byte, 8> bytes{};
        std::size_t size = 0;
    };
    Work work_;
    std::vector<UniqueFd> members_;
    std::vector<Carry> carries_;  // bytes of an element that has come in part
    std::vector<std::byte> some_;
    std::array<Sum, 2> sums_;
    std::vector<unsigned> at_;  // operation that each member is in
};

}  // namespace

Result<std::unique_ptr<Way>> join_server(const Work& work, const TcpPeers& peers) {
    auto server = connect_to(peers.hosts.front(), peers.port, work.deadline_seconds);
    ASK_PASS(server);
    ASK_PASS(introduce(server->get(), work.rank));
    return std::unique_ptr<Way>(std::make_unique<Push>(work, std::move(*server)));
}

Result<std::string> serve(const Work& work, std::uint16_t port) {
    const auto listener = listen_on({}, port, work.size);
    ASK_PASS(listener);
    std::vector<UniqueFd> members(work.size);
    for (unsigned i = 0; i < work.size; ++i) {
        auto arrival = accept_from(listener->get(), work.deadline_seconds);
        ASK_PASS(arrival);
        if (arrival->rank >= work.size || members[arrival->rank]) {
            return Error(Errc::kInput,
                         "rank " + std::to_string(arrival->rank) + " came twice, or there is none such");
        }
        members[arrival->rank] = std::move(arrival->fd);
    }
    const auto link = Server(work, std::move(members)).run();
    ASK_PASS(link);
    return nlohmann::ordered_json{{"link", to_json(*link)}}.dump();
}

}  // namespace ask::bench
