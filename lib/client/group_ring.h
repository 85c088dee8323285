// SPDX-License-Identifier: Apache-2.0
//
// Shared memory through which an application gives its agent a group's operations, and hears of their end.
// The agent makes it and believes nothing in it: counts, numbers and offsets are checked as they are read,
// from a copy.
//
// Memory: a page of GroupRingHeader, then kGroupOperations descriptors, then as many completions. Counts are
// of all ever written or read; an operation's place is its number - 1 modulo kGroupOperations, a completion's
// the count at which it was written. The application has at most kGroupOperations under way, of which it has
// not taken the completion, so the agent never waits for room.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

inline constexpr std::uint32_t kGroupOperations = 256;
// What lies in the arena begins at multiples of it.
inline constexpr std::uint64_t kGroupAlignment = 64;

// The numbers are those of ask.h, where it has any.
enum class GroupKind : std::uint8_t { kAllreduce = 1, kReduce = 2, kBroadcast = 3, kBarrier = 4 };
enum class GroupType : std::uint8_t {
    kInt32 = 1,
    kInt64 = 2,
    kFloat32 = 3,
    kFloat64 = 4,
    kBfloat16 = 5,
    kFloat16 = 6,
    kInt8 = 7,
    kUint8 = 8,
    kInt16 = 9,
    kUint16 = 10,
    kUint32 = 11,
    kUint64 = 12,
};
enum class GroupOp : std::uint8_t {
    kSum = 1,
    kProduct = 2,
    kMin = 3,
    kMax = 4,
    kAnd = 5,
    kOr = 6,
    kXor = 7,
    kSum32 = 8,  // sums of floats in fewer bits
    kSum16 = 9,
};
// Of a group whose sums may be of 16 bits: with more, too few are left of each value.
inline constexpr std::uint32_t kSum16Members = 16;

// Bytes of a value; 0: no such type.
[[nodiscard]] constexpr std::uint32_t group_type_bytes(GroupType type) {
    switch (type) {
        case GroupType::kInt8:
        case GroupType::kUint8:
            return 1;
        case GroupType::kInt16:
        case GroupType::kUint16:
        case GroupType::kBfloat16:
        case GroupType::kFloat16:
            return 2;
        case GroupType::kInt32:
        case GroupType::kUint32:
        case GroupType::kFloat32:
            return 4;
        case GroupType::kInt64:
        case GroupType::kUint64:
        case GroupType::kFloat64:
            return 8;
    }
    return 0;
}

// What one operation is, all of it. Offsets are into the arena; what a member both reads and writes lies
// apart.
struct GroupDescriptor {
    std::uint64_t number = 0;  // from 1, without gaps
    GroupKind kind{};
    GroupType type{};        // of a barrier: none
    GroupOp op{};            // of an allreduce and a reduce alone
    std::uint8_t flags = 0;  // none yet
    std::uint32_t root = 0;  // of a reduce and a broadcast alone
    std::uint64_t in = 0;
    std::uint64_t out = 0;
    std::uint64_t count = 0;  // values
    std::array<std::uint64_t, 3> zero{};
    bool operator==(const GroupDescriptor&) const = default;
};
static_assert(sizeof(GroupDescriptor) == 64);

struct GroupCompletion {
    std::uint64_t number = 0;
    std::int32_t code = 0;  // ask::Errc; 0: whole. kUnsupported: it has not begun, and the group goes on
    std::uint32_t length = 0;
    std::array<char, 240> text{};  // why not
    [[nodiscard]] std::string_view why() const {
        return {text.data(), std::min<std::size_t>(length, text.size())};
    }
};
static_assert(sizeof(GroupCompletion) == 256);

struct GroupRingHeader {
    static constexpr std::uint64_t kMagic = 0x32505552474b5341ULL;  // "ASKGRUP2"
    std::uint64_t magic;
    alignas(64) std::atomic<std::uint64_t> submitted;  // application writes
    alignas(64) std::atomic<std::uint64_t> completed;  // agent writes
    // 1: wants to be woken for something new.
    alignas(64) std::atomic<std::uint32_t> agent_waiting;
    alignas(64) std::atomic<std::uint32_t> application_waiting;
};
struct GroupRingMemory {
    GroupRingHeader header;
    alignas(4096) std::array<GroupDescriptor, kGroupOperations> descriptors;
    std::array<GroupCompletion, kGroupOperations> completions;
};
static_assert(sizeof(GroupRingMemory) % 4096 == 0);

// Shared memory as it is mapped, until this ends. A fork's child does not get it.
class SharedMapping {
 public:
    SharedMapping() = default;
    static Result<SharedMapping> map(const UniqueFd& memory, std::size_t bytes);
    SharedMapping(SharedMapping&& other) noexcept { swap(other); }
    SharedMapping& operator=(SharedMapping&& other) noexcept {
        swap(other);
        return *this;
    }
    ~SharedMapping();
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }

 private:
    void swap(SharedMapping& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// Agent's side.
class GroupRing {
 public:
    static Result<GroupRing> create();

    // To be passed to the application, in this order: memory, its ends of the pipes that wake the agent and
    // it.
    [[nodiscard]] std::array<int, 3> application_fds() const {
        return {memory_.get(), wake_write_.get(), woken_read_.get()};
    }
    // To poll while asleep; arm() drains it.
    [[nodiscard]] int event() const { return wake_read_.get(); }

    // The next operation, copied; nothing: there is none. kInput: the application broke the ring. Of what it
    // is only the number is checked here.
    Result<std::optional<GroupDescriptor>> next();
    // Once for each that next() gave, in any order.
    void complete(std::uint64_t number, std::int32_t code, std::string_view why = {});
    // Before sleeping: true if there is something to do after all.
    bool arm();

 private:
    [[nodiscard]] GroupRingMemory& ring() const {
        return *reinterpret_cast<GroupRingMemory*>(mapping_.data());
    }
    UniqueFd memory_;
    UniqueFd wake_read_;
    UniqueFd wake_write_;  // the application's
    UniqueFd woken_write_;
    UniqueFd woken_read_;  // the application's
    SharedMapping mapping_;
    std::uint64_t taken_ = 0;
    std::uint64_t completed_ = 0;
};

// Application's side.
class GroupRingUser {
 public:
    // Takes what application_fds() handed out. kInput: not such a ring.
    static Result<GroupRingUser> open(UniqueFd memory, UniqueFd wake, UniqueFd woken);

    // Gives it its number, and hands it over. kLimit: kGroupOperations are under way.
    Result<std::uint64_t> submit(GroupDescriptor descriptor);
    // The next that has ended.
    std::optional<GroupCompletion> next();
    // Before sleeping on event(): true if something has ended meanwhile.
    bool arm();
    [[nodiscard]] int event() const { return woken_.get(); }
    [[nodiscard]] std::array<int, 3> fds() const { return {memory_.get(), wake_.get(), woken_.get()}; }

 private:
    [[nodiscard]] GroupRingMemory& ring() const {
        return *reinterpret_cast<GroupRingMemory*>(mapping_.data());
    }
    UniqueFd memory_;
    UniqueFd wake_;
    UniqueFd woken_;
    SharedMapping mapping_;
    std::uint64_t submitted_ = 0;
    std::uint64_t seen_ = 0;
};

}  // namespace ask
