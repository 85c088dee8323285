// SPDX-License-Identifier: Apache-2.0
//
// The ring between an application and its agent, with an application that writes whatever it likes into it,
// also between two reads: the agent takes nothing from outside the ring, and not more than was said to be in
// it.
#include "lib/client/tuple_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "lib/abi/consts.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

constexpr std::size_t kBytes = std::size_t{256} * 1024;

// The application's view: header page and records, once.
class Shared {
 public:
    explicit Shared(const TupleRingConsumer& ring)
        : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
          base_(::mmap(nullptr, page_ + kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.application_fds()[0],
                       0)) {
        require(base_ != MAP_FAILED, "an application can map the ring");
    }
    ~Shared() { ::munmap(base_, page_ + kBytes); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    [[nodiscard]] RingHeader& header() { return *static_cast<RingHeader*>(base_); }
    // The byte that the ring's byte number `at` is kept in.
    [[nodiscard]] char& byte(std::uint64_t at) { return static_cast<char*>(base_)[page_ + at % kBytes]; }
    void write(std::uint64_t at, std::string_view bytes) {
        for (const char c : bytes) {
            byte(at++) = c;
        }
    }

 private:
    std::size_t page_;
    void* base_;
};

class Session {
 public:
    Session(TupleRingConsumer& ring, Shared& shared) : ring_(ring), shared_(shared) {}

    void application(Input& input) {
        RingHeader& header = shared_.header();
        switch (input.below(6)) {
            case 0:
                set_head(popped_ + std::uint64_t{input.take<std::uint16_t>()} * 8);
                break;
            case 1:
                set_head(input.take<std::uint64_t>());
                break;
            case 2:
                header.tail.store(input.take<std::uint64_t>());
                header.magic = header.bytes = input.take<std::uint64_t>();
                break;
            case 3:
                header.producer_waiting.store(input.take<std::uint32_t>());
                header.consumer_waiting.store(input.take<std::uint32_t>());
                break;
            case 4:
                shared_.write(input.take<std::uint32_t>(), input.text(input.take<std::uint8_t>()));
                break;
            default:
                write_record(input);
                break;
        }
    }

    // Reads up to so many tuples; false once the ring is broken, which ends the session.
    bool agent(unsigned most) {
        for (unsigned i = 0; i < most; ++i) {
            std::string_view key;
            std::int64_t value = 0;
            const auto got = ring_.peek(key, value);
            if (!got) {
                return false;
            }
            if (!*got) {
                break;
            }
            check(key, value);
            ring_.pop();
        }
        ring_.release();
        require(shared_.header().tail.load() == popped_, "what was taken is published");
        ring_.arm();
        return true;
    }

 private:
    void set_head(std::uint64_t head) {
        shared_.header().head.store(head);
        written_ = std::max(written_, head);
    }

    // A record at the place that is read next, or a little further; any key length.
    void write_record(Input& input) {
        const std::uint64_t at = popped_ + input.take<std::uint8_t>() * std::uint64_t{8};
        const auto value = input.take<std::uint64_t>();
        const std::uint32_t length = input.flag() ? input.take<std::uint32_t>() : input.take<std::uint16_t>();
        std::string record(16, '\0');
        std::memcpy(record.data(), &value, sizeof(value));
        std::memcpy(record.data() + 8, &length, sizeof(length));
        shared_.write(at, record);
        shared_.write(at + 16, input.text(input.take<std::uint8_t>()));
    }

    void check(std::string_view key, std::int64_t value) {
        require(key.size() <= ASK_MAX_KEY, "a key is not longer than keys can be");
        std::int64_t stored = 0;
        for (std::size_t i = 0; i < sizeof(stored); ++i) {
            std::memcpy(reinterpret_cast<char*>(&stored) + i, &shared_.byte(popped_ + i), 1);
        }
        require(stored == value, "the value is the one in the ring");
        for (std::size_t i = 0; i < key.size(); ++i) {
            require(key[i] == shared_.byte(popped_ + 16 + i), "the key is what is in the ring");
        }
        popped_ += 16 + (key.size() + 7) / 8 * 8;
        require(popped_ <= written_, "no more is taken than was said to be there");
    }

    TupleRingConsumer& ring_;
    Shared& shared_;
    std::uint64_t popped_ = 0;
    std::uint64_t written_ = 0;  // the highest head that there was
};

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    auto ring = ask::TupleRingConsumer::create(kBytes);
    require(ring.ok(), "a ring can be made");
    Shared shared(*ring);
    Session session(*ring, shared);
    Input input(data, size);
    while (!input.empty()) {
        session.application(input);
        const unsigned most = input.below(16);
        if (most > 0 && !session.agent(most)) {
            break;
        }
    }
    return 0;
}
