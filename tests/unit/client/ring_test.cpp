// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/consts.h"
#include "lib/client/tuple_ring.h"

namespace ask {
namespace {

constexpr std::size_t kRing = 256 * 1024;
constexpr int kWaitMs = 20'000;

UniqueFd dup_of(int fd) {
    return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

TupleRingProducer open_producer(const TupleRingConsumer& consumer) {
    const auto fds = consumer.application_fds();
    auto producer = TupleRingProducer::open(dup_of(fds[0]), dup_of(fds[1]), dup_of(fds[2]));
    REQUIRE(producer.ok());
    return *std::move(producer);
}

bool readable(int fd, int timeout_ms = 0) {
    pollfd poll_fd{fd, POLLIN, 0};
    return ::poll(&poll_fd, 1, timeout_ms) == 1;
}

// The application's view of a ring, to break it.
struct RawRing {
    explicit RawRing(const TupleRingConsumer& consumer)
        : size(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + consumer.bytes()),
          base(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, consumer.application_fds()[0], 0)) {
        REQUIRE(base != MAP_FAILED);
    }
    RawRing(const RawRing&) = delete;
    RawRing& operator=(const RawRing&) = delete;
    ~RawRing() { ::munmap(base, size); }
    [[nodiscard]] RingHeader& header() const { return *static_cast<RingHeader*>(base); }
    void write(std::size_t offset, const void* bytes, std::size_t count) const {
        std::memcpy(static_cast<char*>(base) + ::sysconf(_SC_PAGESIZE) + offset, bytes, count);
    }
    std::size_t size;
    void* base;
};

struct Record {
    std::int64_t value;
    std::uint32_t key_len;
    std::uint32_t zero;
};

TEST_CASE("tuples come out as they went in, whatever their keys") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    auto producer = open_producer(*consumer);
    const std::string longest(ASK_MAX_KEY, 'k');
    const std::string zeros("\0a\0", 3);
    REQUIRE(producer.try_push("", -1));
    REQUIRE(producer.try_push(zeros, INT64_MIN));
    REQUIRE(producer.try_push(longest, INT64_MAX));
    CHECK_FALSE(consumer->has_data());
    producer.publish();
    CHECK(consumer->has_data());

    std::string_view key;
    std::int64_t value = 0;
    const auto expect = [&](std::string_view want_key, std::int64_t want_value) {
        auto got = consumer->peek(key, value);
        REQUIRE(got.ok());
        REQUIRE(*got);
        CHECK(key == want_key);
        CHECK(value == want_value);
        consumer->pop();
    };
    expect("", -1);
    expect(zeros, INT64_MIN);
    expect(longest, INT64_MAX);
    auto none = consumer->peek(key, value);
    REQUIRE(none.ok());
    CHECK_FALSE(*none);
    CHECK_FALSE(producer.drained());
    consumer->release();
    CHECK(producer.drained());
}

TEST_CASE("several tuples go in and come out at once") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    auto producer = open_producer(*consumer);
    const std::string zeros("\0a\0", 3);
    const std::string longer(300, 'l');
    const std::vector<std::string> keys = {"", "a", zeros, "12345678", "123456789", longer};
    std::vector<Tuple> tuples;
    for (const std::string& key : keys) {
        tuples.emplace_back(key, static_cast<std::int64_t>(tuples.size()) - 2);
    }
    std::array<Tuple, 4> out;
    std::size_t pushed = 0;
    std::size_t popped = 0;
    const auto push_some = [&] {
        const std::size_t n = producer.try_push(std::span(tuples).subspan(pushed % tuples.size()));
        pushed += n;
        return n > 0;
    };
    // Past the ring's end many times, and each time until it is full.
    while (pushed < kRing) {
        while (push_some()) {
        }
        REQUIRE_FALSE(producer.try_push(longer, 1));
        producer.publish();
        for (;;) {
            const auto got = consumer->peek(out);
            REQUIRE(got.ok());
            if (*got == 0) {
                break;
            }
            // What is not popped comes again.
            const std::size_t taken = std::max<std::size_t>(1, *got - 1);
            for (std::size_t i = 0; i < taken; ++i, ++popped) {
                const Tuple& want = tuples[popped % tuples.size()];
                const bool same =
                    out[i].key == want.key && out[i].value == want.value && out[i].head == want.head;
                REQUIRE(same);
            }
            consumer->pop(std::span(out).first(taken));
        }
        REQUIRE(popped == pushed);
        consumer->release();
    }
}

TEST_CASE("a full ring refuses tuples and takes them again once space is released") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    auto producer = open_producer(*consumer);
    std::size_t pushed = 0;
    while (producer.try_push("12345678", 1)) {
        ++pushed;
    }
    CHECK(pushed == kRing / 24);
    producer.publish();
    CHECK_FALSE(producer.arm(24));
    std::string_view key;
    std::int64_t value = 0;
    REQUIRE(*consumer->peek(key, value));
    consumer->pop();
    CHECK_FALSE(producer.try_push("12345678", 1));
    CHECK_FALSE(readable(producer.space_event()));
    consumer->release();
    CHECK(readable(producer.space_event()));
    CHECK(producer.arm(24));
    CHECK(producer.try_push("12345678", 1));
}

TEST_CASE("the producer is woken no sooner than it asked for") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    auto producer = open_producer(*consumer);
    std::size_t free = kRing;
    while (producer.try_push("12345678", 1)) {
        free -= 24;
    }
    CHECK_FALSE(producer.arm(kRing / 2));
    std::string_view key;
    std::int64_t value = 0;
    while (free < kRing / 2) {
        REQUIRE_FALSE(readable(producer.space_event()));
        REQUIRE(*consumer->peek(key, value));
        consumer->pop();
        free += 24;
        consumer->release();
    }
    CHECK(readable(producer.space_event()));
}

TEST_CASE("a sleeping consumer is woken by data, and not put to sleep over it") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    auto producer = open_producer(*consumer);
    CHECK_FALSE(consumer->arm());
    CHECK_FALSE(readable(consumer->data_event()));
    REQUIRE(producer.try_push("a", 1));
    producer.publish();
    CHECK(readable(consumer->data_event()));
    CHECK(consumer->arm());
    CHECK_FALSE(readable(consumer->data_event()));
}

TEST_CASE("millions of tuples pass between two threads that sleep and wake") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    auto producer = open_producer(*consumer);
    constexpr int kTuples = 200'000;
    const auto length = [](int i) { return static_cast<std::size_t>(i) * 7919 % 97; };
    std::thread writer([&] {
        const std::string bytes(97, 'x');
        for (int i = 0; i < kTuples; ++i) {
            while (!producer.try_push(std::string_view(bytes).substr(0, length(i)), i)) {
                if (!producer.arm(kRing / 4)) {
                    REQUIRE(readable(producer.space_event(), kWaitMs));
                }
            }
        }
        producer.publish();
    });
    int seen = 0;
    int wrong = 0;
    while (seen < kTuples) {
        std::string_view key;
        std::int64_t value = 0;
        auto got = consumer->peek(key, value);
        REQUIRE(got.ok());
        if (*got) {
            wrong += value != seen || key.size() != length(seen) ? 1 : 0;
            ++seen;
            consumer->pop();
            continue;
        }
        consumer->release();
        if (!consumer->arm()) {
            REQUIRE(readable(consumer->data_event(), kWaitMs));
        }
    }
    writer.join();
    CHECK(wrong == 0);
}

TEST_CASE("a broken or hostile application gives errors, never a wild read") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    const RawRing raw(*consumer);
    std::string_view key;
    std::int64_t value = 0;
    const auto refused = [&] {
        auto got = consumer->peek(key, value);
        return !got.ok() && got.error().code() == Errc::kInput;
    };
    SUBCASE("head beyond the ring") {
        raw.header().head = kRing + 8;
        CHECK(refused());
    }
    SUBCASE("head behind the tail") {
        raw.header().head = UINT64_MAX - 7;
        CHECK(refused());
    }
    SUBCASE("head off its grid") {
        raw.header().head = 13;
        CHECK(refused());
    }
    SUBCASE("key longer than what was written") {
        const Record record{1, 1000, 0};
        raw.write(0, &record, sizeof(record));
        raw.header().head = 24;
        CHECK(refused());
    }
    SUBCASE("key longer than any") {
        const Record record{1, 0xffffffff, 0};
        raw.write(0, &record, sizeof(record));
        raw.header().head = kRing;
        CHECK(refused());
    }
    SUBCASE("a record's head that is cut off") {
        raw.header().head = 8;
        CHECK(refused());
    }
    SUBCASE("a key longer than any behind one that is in order") {
        const Record good{7, 0, 0};
        const Record bad{1, 0xffffffff, 0};
        raw.write(0, &good, sizeof(good));
        raw.write(sizeof(good), &bad, sizeof(bad));
        raw.header().head = kRing;
        std::array<Tuple, 4> out;
        const auto got = consumer->peek(out);
        REQUIRE(got.ok());
        REQUIRE(*got == 1);
        CHECK(out[0].value == 7);
        consumer->pop(std::span(out).first(1));
        CHECK(refused());
        CHECK_FALSE(consumer->peek(out).ok());
    }
    SUBCASE("any wish for space is answered") {
        raw.header().producer_waiting = UINT32_MAX;
        consumer->release();
        CHECK(readable(consumer->application_fds()[2]));
    }
    SUBCASE("the header's sizes are not believed") {
        raw.header().bytes = UINT64_MAX;
        raw.header().magic = 0;
        auto got = consumer->peek(key, value);
        REQUIRE(got.ok());
        CHECK_FALSE(*got);
    }
}

TEST_CASE("random memory never makes the consumer leave the ring") {
    std::mt19937_64 random(7);
    for (int round = 0; round < 200; ++round) {
        auto consumer = TupleRingConsumer::create(kRing);
        REQUIRE(consumer.ok());
        const RawRing raw(*consumer);
        for (std::size_t at = 0; at < 4096; at += 8) {
            const std::uint64_t word = random() >> (random() % 64);
            raw.write(at, &word, sizeof(word));
        }
        raw.header().head = (random() % (kRing / 8)) * 8;
        std::string_view key;
        std::int64_t value = 0;
        std::uint64_t sum = 0;
        for (;;) {
            auto got = consumer->peek(key, value);
            if (!got.ok() || !*got) {
                break;
            }
            for (const char c : key) {
                sum += static_cast<unsigned char>(c);
            }
            consumer->pop();
        }
        CHECK(sum < UINT64_MAX);
    }
}

TEST_CASE("the application cannot take the agent's memory away or make it block") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    const auto fds = consumer->application_fds();
    CHECK(::ftruncate(fds[0], 0) != 0);
    for (const int fd : {fds[1], fds[2]}) {
        const int flags = ::fcntl(fd, F_GETFL);
        REQUIRE(::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0);
    }
    // Would block for ever if the flags were shared.
    CHECK_FALSE(consumer->arm());
    const RawRing raw(*consumer);
    for (int i = 0; i < 100'000; ++i) {
        raw.header().producer_waiting = 1;
        consumer->release();
    }
    CHECK(readable(fds[2]));
}

TEST_CASE("a ring has limits, and its producer knows a ring when it sees one") {
    CHECK(TupleRingConsumer::create(kRing - 1).error().code() == Errc::kUsage);
    CHECK(TupleRingConsumer::create(kRing / 2).error().code() == Errc::kUsage);
    UniqueFd memory(::memfd_create("no-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(memory);
    REQUIRE(::ftruncate(memory.get(), static_cast<off_t>(kRing + 4096)) == 0);
    CHECK(TupleRingProducer::open(dup_of(memory.get()), UniqueFd(), UniqueFd()).error().code() ==
          Errc::kInput);
    REQUIRE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    CHECK(TupleRingProducer::open(dup_of(memory.get()), UniqueFd(), UniqueFd()).error().code() ==
          Errc::kInput);
}

TEST_CASE("a producer survives its agent") {
    auto consumer = TupleRingConsumer::create(kRing);
    REQUIRE(consumer.ok());
    auto producer = open_producer(*consumer);
    const RawRing raw(*consumer);
    consumer = TupleRingConsumer::create(kRing);
    raw.header().consumer_waiting = 1;
    // SIGPIPE would end the test program here.
    REQUIRE(producer.try_push("a", 1));
    producer.publish();
    CHECK_FALSE(producer.drained());
}

}  // namespace
}  // namespace ask
