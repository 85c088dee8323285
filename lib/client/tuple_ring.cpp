// SPDX-License-Identifier: Apache-2.0
#include "lib/client/tuple_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/abi/consts.h"
#include "lib/client/shared_memory.h"

namespace ask {
namespace {

constexpr std::size_t kMinRing = 256 * 1024;
constexpr std::size_t kMaxRing = std::size_t{1} << 31;
struct RecordHead {
    std::int64_t value;
    std::uint32_t key_len;
    std::uint32_t zero;
};
static_assert(sizeof(RecordHead) == 16);

constexpr std::size_t record_bytes(std::size_t key_len) {
    return sizeof(RecordHead) + ((key_len + 7) & ~std::size_t{7});
}
static_assert(record_bytes(ASK_MAX_KEY) <= kMinRing);

struct Mapping {
    RingHeader* header;
    std::byte* data;
};

std::size_t mapped_bytes(std::size_t bytes) {
    return page_bytes() + 2 * bytes;
}

void unmap(const RingHeader* header, std::size_t bytes) {
    if (header != nullptr) {
        ::munmap(const_cast<RingHeader*>(header), mapped_bytes(bytes));
    }
}

// Maps the header page, and the records twice in a row behind it.
Result<Mapping> map_ring(int fd, std::size_t bytes) {
    const std::size_t page = page_bytes();
    void* const base = ::mmap(nullptr, mapped_bytes(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return Error::from_errno(errno, "reserve addresses for a tuple ring");
    }
    auto* const start = static_cast<std::byte*>(base);
    const int protection = PROT_READ | PROT_WRITE;
    const int flags = MAP_SHARED | MAP_FIXED;
    if (::mmap(start, page + bytes, protection, flags, fd, 0) == MAP_FAILED ||
        ::mmap(start + page + bytes, bytes, protection, flags, fd, static_cast<off_t>(page)) == MAP_FAILED) {
        const int err = errno;
        ::munmap(base, mapped_bytes(bytes));
        return Error::from_errno(err, "map a tuple ring of " + std::to_string(bytes) + " bytes");
    }
    return Mapping{reinterpret_cast<RingHeader*>(start), start + page};
}

}  // namespace

Result<TupleRingConsumer> TupleRingConsumer::create(std::size_t bytes) {
    if (!std::has_single_bit(bytes) || bytes < kMinRing || bytes > kMaxRing) {
        return Error(Errc::kUsage, "a tuple ring of " + std::to_string(bytes) +
                                       " bytes: must be a power of two from 256 KiB to 2 GiB");
    }
    auto memory = make_shared_memory("ask-ring", page_bytes() + bytes);
    if (!memory) {
        return std::move(memory).error();
    }
    auto data_pipe = make_wake_pipe();
    if (!data_pipe) {
        return std::move(data_pipe).error();
    }
    auto space_pipe = make_wake_pipe();
    if (!space_pipe) {
        return std::move(space_pipe).error();
    }
    auto data_write = reopen_for_application(data_pipe->write.get());
    if (!data_write) {
        return std::move(data_write).error();
    }
    auto mapping = map_ring(memory->get(), bytes);
    if (!mapping) {
        return std::move(mapping).error();
    }
    TupleRingConsumer ring;
    ring.memory_ = *std::move(memory);
    ring.data_event_ = std::move(data_pipe->read);
    ring.data_write_ = *std::move(data_write);
    ring.space_event_ = std::move(space_pipe->write);
    ring.space_read_ = std::move(space_pipe->read);
    ring.header_ = new (mapping->header) RingHeader{};
    ring.header_->magic = RingHeader::kMagic;
    ring.header_->bytes = bytes;
    ring.data_ = mapping->data;
    ring.bytes_ = bytes;
    return ring;
}

void TupleRingConsumer::swap(TupleRingConsumer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_event_, other.data_event_);
    std::swap(data_write_, other.data_write_);
    std::swap(space_event_, other.space_event_);
    std::swap(space_read_, other.space_read_);
    std::swap(header_, other.header_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(tail_, other.tail_);
    std::swap(seen_head_, other.seen_head_);
    std::swap(current_, other.current_);
}

TupleRingConsumer::TupleRingConsumer(TupleRingConsumer&& other) noexcept {
    swap(other);
}

TupleRingConsumer& TupleRingConsumer::operator=(TupleRingConsumer&& other) noexcept {
    swap(other);
    return *this;
}

TupleRingConsumer::~TupleRingConsumer() {
    unmap(header_, bytes_);
}

// Whether there is a record to be read.
Result<bool> TupleRingConsumer::look_again() {
    const std::uint64_t head = header_->head.load(std::memory_order_acquire);
    if (head - tail_ > bytes_ || head % 8 != 0) {
        return Error(Errc::kInput, "tuple ring: the application's index is out of range");
    }
    seen_head_ = head;
    return tail_ != head;
}

Result<std::size_t> TupleRingConsumer::peek(std::span<Tuple> out) {
    if (tail_ == seen_head_) {
        auto more = look_again();
        ASK_PASS(more);
    }
    const char* const end = reinterpret_cast<const char*>(data_ + 2 * bytes_);
    std::uint64_t at = tail_;
    std::size_t n = 0;
    for (; n < out.size() && at != seen_head_; ++n) {
        const std::byte* const place = data_ + (at & (bytes_ - 1));
        // Copied before it is checked: the application may write to it at any time.
        RecordHead head;
        std::memcpy(&head, place, sizeof(head));
        const std::size_t size = record_bytes(head.key_len);
        if (head.key_len > ASK_MAX_KEY || size > seen_head_ - at) {
            if (n > 0) {
                break;  // those before it are in order
            }
            return Error(Errc::kInput, "tuple ring: a key of " + std::to_string(head.key_len) +
                                           " bytes does not fit what the application has written");
        }
        out[n] =
            Tuple({reinterpret_cast<const char*>(place) + sizeof(RecordHead), head.key_len}, head.value, end);
        at += size;
    }
    return n;
}

void TupleRingConsumer::pop(std::span<const Tuple> tuples) {
    for (const Tuple& tuple : tuples) {
        tail_ += record_bytes(tuple.key.size());
    }
}

Result<bool> TupleRingConsumer::peek(std::string_view& key, std::int64_t& value) {
    Tuple tuple;
    auto got = peek(std::span(&tuple, 1));
    ASK_PASS(got);
    key = tuple.key;
    value = tuple.value;
    current_ = *got == 0 ? 0 : record_bytes(key.size());
    return *got == 1;
}

void TupleRingConsumer::pop() {
    tail_ += current_;
    current_ = 0;
}

void TupleRingConsumer::release() {
    // Store, then load, both sequentially consistent, as in TupleRingProducer::arm(): either this sees the
    // wish or the producer sees the space.
    header_->tail.store(tail_, std::memory_order_seq_cst);
    const std::uint32_t wanted = header_->producer_waiting.load(std::memory_order_seq_cst);
    if (wanted == 0) {
        return;
    }
    const std::uint64_t used = header_->head.load(std::memory_order_relaxed) - tail_;
    if (used > bytes_ || bytes_ - used >= wanted || used == 0) {
        header_->producer_waiting.store(0, std::memory_order_relaxed);
        wake_pipe(space_event_.get());
    }
}

bool TupleRingConsumer::has_data() const {
    return header_->head.load(std::memory_order_seq_cst) != tail_;
}

bool TupleRingConsumer::arm() {
    drain_pipe(data_event_.get());
    header_->consumer_waiting.store(1, std::memory_order_seq_cst);
    if (!has_data()) {
        return false;
    }
    header_->consumer_waiting.store(0, std::memory_order_relaxed);
    return true;
}

Result<TupleRingProducer> TupleRingProducer::open(UniqueFd memory, UniqueFd data_event,
                                                  UniqueFd space_event) {
    const int seals = ::fcntl(memory.get(), F_GET_SEALS);
    struct stat info{};
    if (seals < 0 || ::fstat(memory.get(), &info) != 0) {
        return Error::from_errno(errno, "tuple ring: look at its memory");
    }
    const std::size_t page = page_bytes();
    const std::size_t size = static_cast<std::size_t>(info.st_size);
    const std::size_t bytes = size - page;
    if ((seals & F_SEAL_SHRINK) == 0 || size <= page || !std::has_single_bit(bytes) || bytes < kMinRing ||
        bytes > kMaxRing) {
        return Error(Errc::kInput, "tuple ring: not the memory of one");
    }
    auto mapping = map_ring(memory.get(), bytes);
    if (!mapping) {
        return std::move(mapping).error();
    }
    TupleRingProducer ring;
    ring.header_ = mapping->header;
    ring.data_ = mapping->data;
    ring.bytes_ = bytes;
    ring.memory_ = std::move(memory);
    ring.data_event_ = std::move(data_event);
    ring.space_event_ = std::move(space_event);
    // A child that wrote to it would spoil what its parent sends.
    if (::madvise(mapping->header, mapped_bytes(bytes), MADV_DONTFORK) != 0) {
        return Error::from_errno(errno, "keep a tuple ring from children");
    }
    if (ring.header_->magic != RingHeader::kMagic || ring.header_->bytes != bytes) {
        return Error(Errc::kInput, "tuple ring: not the header of one");
    }
    ring.head_ = ring.header_->head.load(std::memory_order_relaxed);
    ring.seen_tail_ = ring.head_;
    return ring;
}

void TupleRingProducer::swap(TupleRingProducer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_event_, other.data_event_);
    std::swap(space_event_, other.space_event_);
    std::swap(header_, other.header_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(head_, other.head_);
    std::swap(seen_tail_, other.seen_tail_);
}

TupleRingProducer::TupleRingProducer(TupleRingProducer&& other) noexcept {
    swap(other);
}

TupleRingProducer& TupleRingProducer::operator=(TupleRingProducer&& other) noexcept {
    swap(other);
    return *this;
}

TupleRingProducer::~TupleRingProducer() {
    unmap(header_, bytes_);
}

inline bool TupleRingProducer::has_room(std::size_t bytes) {
    if (head_ - seen_tail_ + bytes > bytes_) {
        seen_tail_ = header_->tail.load(std::memory_order_acquire);
    }
    return head_ - seen_tail_ + bytes <= bytes_;
}

std::size_t TupleRingProducer::try_push(std::span<const Tuple> tuples) {
    std::size_t n = 0;
    for (; n < tuples.size(); ++n) {
        const Tuple& tuple = tuples[n];
        const std::size_t key_len = tuple.key.size();
        const std::size_t size = record_bytes(key_len);
        if (!has_room(size)) {
            break;
        }
        std::byte* const place = data_ + (head_ & (bytes_ - 1));
        const RecordHead head{tuple.value, static_cast<std::uint32_t>(key_len), 0};
        std::memcpy(place, &head, sizeof(head));
        std::byte* const key = place + sizeof(head);
        if (key_len > sizeof(tuple.head)) {
            std::memcpy(key, tuple.key.data(), key_len);
        } else if (key_len > 0) {
            std::memcpy(key, &tuple.head, sizeof(tuple.head));
        }
        head_ += size;
    }
    return n;
}

bool TupleRingProducer::try_push(std::string_view key, std::int64_t value) {
    const Tuple tuple(key, value);
    return try_push(std::span(&tuple, 1)) == 1;
}

void TupleRingProducer::publish() {
    // Sequentially consistent, as in TupleRingConsumer::arm(): either this sees it asleep or it sees the
    // data.
    header_->head.store(head_, std::memory_order_seq_cst);
    if (header_->consumer_waiting.load(std::memory_order_seq_cst) != 0) {
        header_->consumer_waiting.store(0, std::memory_order_relaxed);
        wake_pipe(data_event_.get());
    }
}

bool TupleRingProducer::arm(std::size_t need) {
    publish();
    need = std::clamp(need, std::size_t{1}, bytes_);
    drain_pipe(space_event_.get());
    header_->producer_waiting.store(static_cast<std::uint32_t>(need), std::memory_order_seq_cst);
    seen_tail_ = header_->tail.load(std::memory_order_seq_cst);
    if (bytes_ - std::min<std::uint64_t>(head_ - seen_tail_, bytes_) < need) {
        return false;
    }
    header_->producer_waiting.store(0, std::memory_order_relaxed);
    return true;
}

bool TupleRingProducer::drained() const {
    return header_->tail.load(std::memory_order_acquire) == head_;
}

}  // namespace ask
