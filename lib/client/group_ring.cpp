// SPDX-License-Identifier: Apache-2.0
#include "lib/client/group_ring.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "lib/client/shared_memory.h"

namespace ask {

Result<SharedMapping> SharedMapping::map(const UniqueFd& memory, std::size_t bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (at == MAP_FAILED) {
        return Error::from_errno(errno, "map shared memory of " + std::to_string(bytes) + " bytes");
    }
    SharedMapping mapping;
    mapping.data_ = static_cast<std::byte*>(at);
    mapping.size_ = bytes;
    if (::madvise(at, bytes, MADV_DONTFORK) != 0) {
        return Error::from_errno(errno, "keep shared memory from children");
    }
    return mapping;
}

SharedMapping::~SharedMapping() {
    if (data_ != nullptr) {
        ::munmap(data_, size_);
    }
}

Result<GroupRing> GroupRing::create() {
    auto memory = make_shared_memory("ask-group", sizeof(GroupRingMemory));
    ASK_PASS(memory);
    auto wake = make_wake_pipe();
    ASK_PASS(wake);
    auto woken = make_wake_pipe();
    ASK_PASS(woken);
    auto wake_write = reopen_for_application(wake->write.get());
    ASK_PASS(wake_write);
    auto mapping = SharedMapping::map(*memory, sizeof(GroupRingMemory));
    ASK_PASS(mapping);
    GroupRing ring;
    ring.memory_ = *std::move(memory);
    ring.wake_read_ = std::move(wake->read);
    ring.wake_write_ = *std::move(wake_write);
    ring.woken_write_ = std::move(woken->write);
    ring.woken_read_ = std::move(woken->read);
    ring.mapping_ = *std::move(mapping);
    new (ring.mapping_.data()) GroupRingMemory{};
    ring.ring().header.magic = GroupRingHeader::kMagic;
    return ring;
}

Result<std::optional<GroupDescriptor>> GroupRing::next() {
    const std::uint64_t submitted = ring().header.submitted.load(std::memory_order_acquire);
    // Against completions, of which the application may not have taken one yet: only it knows.
    if (submitted - completed_ > kGroupOperations || submitted < taken_) {
        return Error(Errc::kInput, "group: the application says that it has begun " +
                                       std::to_string(submitted) + " operations, of which " +
                                       std::to_string(completed_) + " have ended; the limit is " +
                                       std::to_string(kGroupOperations) + " under way");
    }
    if (submitted == taken_) {
        return std::optional<GroupDescriptor>();
    }
    // Copied before it is checked: the application may write to it at any time.
    GroupDescriptor descriptor;
    std::memcpy(&descriptor, &ring().descriptors[taken_ % kGroupOperations], sizeof(descriptor));
    if (descriptor.number != taken_ + 1) {
        return Error(Errc::kInput, "group: operation " + std::to_string(taken_ + 1) + " calls itself " +
                                       std::to_string(descriptor.number));
    }
    ++taken_;
    return std::optional(descriptor);
}

void GroupRing::complete(std::uint64_t number, std::int32_t code, std::string_view why) {
    GroupCompletion& completion = ring().completions[completed_ % kGroupOperations];
    completion.number = number;
    completion.code = code;
    completion.length = static_cast<std::uint32_t>(why.copy(completion.text.data(), completion.text.size()));
    // Store, then load, both sequentially consistent, as in GroupRingUser::arm(): either this sees the wish
    // or the application sees the end.
    ring().header.completed.store(++completed_, std::memory_order_seq_cst);
    if (ring().header.application_waiting.exchange(0, std::memory_order_seq_cst) != 0) {
        wake_pipe(woken_write_.get());
    }
}

bool GroupRing::arm() {
    drain_pipe(wake_read_.get());
    ring().header.agent_waiting.store(1, std::memory_order_seq_cst);
    if (ring().header.submitted.load(std::memory_order_seq_cst) == taken_) {
        return false;
    }
    ring().header.agent_waiting.store(0, std::memory_order_relaxed);
    return true;
}

Result<GroupRingUser> GroupRingUser::open(UniqueFd memory, UniqueFd wake, UniqueFd woken) {
    const auto bytes = shared_memory_bytes(memory);
    ASK_TRY(bytes, "group ring");
    if (*bytes != sizeof(GroupRingMemory)) {
        return Error(Errc::kInput, "group ring: not the memory of one");
    }
    auto mapping = SharedMapping::map(memory, *bytes);
    ASK_PASS(mapping);
    GroupRingUser ring;
    ring.memory_ = std::move(memory);
    ring.wake_ = std::move(wake);
    ring.woken_ = std::move(woken);
    ring.mapping_ = *std::move(mapping);
    if (ring.ring().header.magic != GroupRingHeader::kMagic) {
        return Error(Errc::kInput, "group ring: not the header of one");
    }
    return ring;
}

Result<std::uint64_t> GroupRingUser::submit(GroupDescriptor descriptor) {
    if (submitted_ - seen_ == kGroupOperations) {
        return Error(Errc::kLimit,
                     std::to_string(kGroupOperations) +
                         " operations of the group are under way, which is the limit: wait for one");
    }
    descriptor.number = submitted_ + 1;
    ring().descriptors[submitted_ % kGroupOperations] = descriptor;
    ring().header.submitted.store(++submitted_, std::memory_order_seq_cst);
    if (ring().header.agent_waiting.exchange(0, std::memory_order_seq_cst) != 0) {
        wake_pipe(wake_.get());
    }
    return descriptor.number;
}

std::optional<GroupCompletion> GroupRingUser::next() {
    if (ring().header.completed.load(std::memory_order_acquire) == seen_) {
        return std::nullopt;
    }
    return ring().completions[seen_++ % kGroupOperations];
}

bool GroupRingUser::arm() {
    drain_pipe(woken_.get());
    ring().header.application_waiting.store(1, std::memory_order_seq_cst);
    if (ring().header.completed.load(std::memory_order_seq_cst) == seen_) {
        return false;
    }
    ring().header.application_waiting.store(0, std::memory_order_relaxed);
    return true;
}

}  // namespace ask
