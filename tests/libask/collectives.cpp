// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-collectives: a member of a group that runs every collective with every type and operator through
// libask.so, up to 24 under way at a time, and compares each with the reference. Prints a line for each
// result it has, with a digest of its bytes: those of allreduce and bcast are to be the same at all members.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/ask/ask.h"
#include "tests/libask/reference.h"

namespace ask::e2e {
namespace {

enum class Kind : std::uint8_t { kAllreduce, kReduce, kBcast, kBarrier };

struct Operation {
    Kind kind = Kind::kBarrier;
    Case what{};
    std::uint32_t root = 0;
};

// Packets hold some 350 values of 4 bytes: one less, one more, several, none.
constexpr std::size_t kCounts[] = {1, 353, 0, 7, 1409, 175, 351, 3, 704, 2817, 352, 63};

// All of them, the same at all members.
std::vector<Operation> plan(std::uint64_t seed, std::uint32_t members) {
    Random random(seed);
    std::vector<Operation> all;
    const auto add = [&](Kind kind, int dtype, int op, Style style) {
        const std::size_t at = all.size();
        all.push_back({kind,
                       {dtype, op, style, kCounts[at % std::size(kCounts)], random.next(), members},
                       static_cast<std::uint32_t>(random.below(members))});
    };
    for (int dtype = ASK_INT32; dtype <= ASK_UINT64; ++dtype) {
        const bool is_float = dtype >= ASK_FLOAT32 && dtype <= ASK_FLOAT16;
        for (int op = ASK_SUM; op <= (is_float ? ASK_MAX : ASK_BXOR); ++op) {
            for (const Kind kind : {Kind::kAllreduce, Kind::kReduce, Kind::kAllreduce, Kind::kReduce}) {
                add(kind, dtype, op, Style::kExact);
            }
        }
        for (const int op : {ASK_SUM, ASK_SUM_32, ASK_SUM_16}) {
            for (const Style style : {Style::kOdd, Style::kReal}) {
                if (is_float && (op == ASK_SUM || dtype != ASK_FLOAT64)) {
                    add(Kind::kAllreduce, dtype, op, style);
                    add(Kind::kReduce, dtype, op, style);
                }
            }
        }
        for (std::uint32_t root = 0; root < members; ++root) {
            add(Kind::kBcast, dtype, ASK_BOR, Style::kExact);
            all.back().root = root;
        }
        add(Kind::kBarrier, ASK_INT32, ASK_SUM, Style::kExact);
    }
    // One order at all members, in which types follow each other.
    for (std::size_t i = all.size(); i > 1; --i) {
        std::swap(all[i - 1], all[random.below(i)]);
    }
    return all;
}

[[noreturn]] void die(const std::string& text) {
    std::fprintf(stderr, "ask-e2e-collectives: %s\n", text.c_str());
    std::exit(1);
}

void must(int code, const std::string& what) {
    if (code != ASK_OK) {
        die(what + ": " + ask_error() + " (" + ask_code_name(code) + ")");
    }
}

std::string text_of(const Operation& operation) {
    const Case& what = operation.what;
    const std::string root = " root " + std::to_string(operation.root);
    const std::string values = std::string(" ") + dtype_name(what.dtype) + " " + std::to_string(what.count);
    const std::string op = std::string(" ") + op_name(what.op) + " " + name_of(what.style);
    switch (operation.kind) {
        case Kind::kAllreduce:
            return "allreduce" + values + op;
        case Kind::kReduce:
            return "reduce" + values + op + root;
        case Kind::kBcast:
            return "bcast" + values + root;
        default:
            return "barrier";
    }
}

// Memory of a vector: the arena's or not.
class Memory {
 public:
    Memory(ask_group* group, std::size_t bytes, bool shared) : group_(group), own_(shared ? 0 : bytes) {
        if (shared) {
            at_ = static_cast<std::byte*>(ask_alloc(group, bytes));
            must(at_ != nullptr ? ASK_OK : ASK_E_LIMIT, "ask_alloc");
        }
    }
    Memory(Memory&& other) noexcept
        : group_(other.group_), own_(std::move(other.own_)), at_(std::exchange(other.at_, nullptr)) {}
    Memory& operator=(Memory&&) = delete;
    ~Memory() {
        if (at_ != nullptr) {
            must(ask_free(group_, at_), "ask_free");
        }
    }
    std::byte* data() { return at_ != nullptr ? at_ : own_.data(); }

 private:
    ask_group* group_;
    std::vector<std::byte> own_;
    std::byte* at_ = nullptr;
};

constexpr std::byte kUntouched{0xa5};

// An operation under way, where this member has its vectors.
class Running {
 public:
    Running(ask_group* group, const Operation& operation, Random& random)
        : operation_(operation),
          in_place_(operation.kind == Kind::kBcast || random.below(3) == 0),
          mine_(input_of(operation.what, ask_group_rank(group))),
          here_(operation.kind != Kind::kReduce || ask_group_rank(group) == operation.root),
          in_(group, mine_.size(), random.below(2) == 0),
          out_(group, in_place_ ? 0 : mine_.size(), random.below(2) == 0) {
        const bool says = operation.kind != Kind::kBcast || ask_group_rank(group) == operation.root;
        for (std::size_t i = 0; i < mine_.size(); ++i) {
            in_.data()[i] = says ? mine_[i] : kUntouched;
            if (!in_place_) {
                out_.data()[i] = kUntouched;
            }
        }
        must(begin(group), text_of(operation));
    }

    void end(bool by_test) {
        int done = by_test ? 0 : 1;
        while (done == 0) {
            must(ask_test(request_, &done), text_of(operation_));
        }
        if (!by_test) {
            must(ask_wait(request_), text_of(operation_));
        }
        check();
    }

 private:
    int begin(ask_group* group) {
        const Case& what = operation_.what;
        std::byte* const out = in_place_ ? in_.data() : out_.data();
        switch (operation_.kind) {
            case Kind::kAllreduce:
                return ask_iallreduce(group, in_.data(), out, what.count, what.dtype, what.op, &request_);
            case Kind::kReduce:
                return ask_ireduce(group, in_.data(), here_ ? out : nullptr, what.count, what.dtype, what.op,
                                   operation_.root, &request_);
            case Kind::kBcast:
                return ask_ibcast(group, in_.data(), what.count, what.dtype, operation_.root, &request_);
            default:
                return ask_ibarrier(group, &request_);
        }
    }

    void check() {
        if (operation_.kind == Kind::kBarrier) {
            return;
        }
        const std::size_t bytes = mine_.size();
        const std::vector<std::byte> in(in_.data(), in_.data() + bytes);
        const bool written = in_place_ && here_;
        if (!written && in != mine_) {
            die(text_of(operation_) + ": the input has changed");
        }
        if (!here_) {
            if (!in_place_ &&
                std::any_of(out_.data(), out_.data() + bytes, [](auto each) { return each != kUntouched; })) {
                die(text_of(operation_) + ": something was written where there is no result");
            }
            return;
        }
        const auto got = in_place_ ? in : std::vector<std::byte>(out_.data(), out_.data() + bytes);
        if (operation_.kind == Kind::kBcast) {
            if (got != input_of(operation_.what, operation_.root)) {
                die(text_of(operation_) + ": not what the root has");
            }
        } else if (const auto what = wrong(operation_.what, got)) {
            die(text_of(operation_) + ": " + *what);
        }
        std::printf("%s: %016llx\n", text_of(operation_).c_str(),
                    static_cast<unsigned long long>(digest(got)));
    }

    Operation operation_;
    bool in_place_;
    std::vector<std::byte> mine_;
    bool here_;  // the result is to come
    Memory in_;
    Memory out_;
    ask_request* request_ = nullptr;
};

// A batch is begun in the plan's order, and waited for in this member's own.
void run(ask_group* group, std::span<const Operation> batch, Random& random) {
    std::vector<Running> running;
    running.reserve(batch.size());
    for (const Operation& operation : batch) {
        running.emplace_back(group, operation, random);
    }
    std::vector<std::size_t> order(batch.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = i;
        std::swap(order[i], order[random.below(i + 1)]);
    }
    for (const std::size_t i : order) {
        running[i].end(random.below(2) == 0);
    }
}

int main(int argc, char** argv) {
    std::map<std::string, std::string> flags = {{"--deadline-ms", "10000"}, {"--seed", "1"}};
    for (int i = 1; i + 1 < argc; i += 2) {
        flags[argv[i]] = argv[i + 1];
    }
    const auto number = [&](const char* flag) { return std::strtoull(flags[flag].c_str(), nullptr, 10); };
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    options.group = flags["--group"].c_str();
    options.root = flags["--root"].c_str();
    options.rank = static_cast<std::uint32_t>(number("--rank"));
    options.size = static_cast<std::uint32_t>(number("--size"));
    options.deadline_ms = static_cast<std::uint32_t>(number("--deadline-ms"));
    ask_group* group = nullptr;
    must(ask_group_open(&options, &group), "ask_group_open");
    Random random(number("--seed") * 100 + options.rank);
    const auto all = plan(number("--seed"), options.size);
    Random sizes(number("--seed") + 1);
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t some = std::min<std::size_t>(all.size() - at, 1 + sizes.below(24));
        run(group, std::span(all).subspan(at, some), random);
        at += some;
    }
    ask_group_close(group);
    return 0;
}

}  // namespace
}  // namespace ask::e2e

int main(int argc, char** argv) {
    return ask::e2e::main(argc, argv);
}
