// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/soar.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "lib/placement/layout.h"
#include "lib/placement/tables.h"

namespace ask::placement {
namespace {

constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
// Subtrees per thread in a parallel gather: enough that a thread with a light one finds another.
constexpr std::uint64_t kTasksPerThread = 8;

std::uint32_t split_width(std::uint32_t k) {
    return k <= 0xff ? 1 : k <= 0xffff ? 2 : 4;
}

// A switch whose subtree holds fewer than two servers forwards at most one message anyway.
std::vector<std::uint8_t> find_candidates(const Tree& tree) {
    std::vector<std::uint8_t> candidate(tree.size());
    for (std::size_t at = 0; at < tree.size(); ++at) {
        const auto id = static_cast<SwitchId>(at);
        candidate[at] = tree.available(id) && tree.subtree_load(id) >= 2 ? 1 : 0;
    }
    return candidate;
}

// Columns of the accumulator of a switch after each of its children.
class Growth {
 public:
    explicit Growth(std::uint32_t k) : k_(k) {}
    std::uint32_t add(std::uint32_t budget) {
        sum_ = std::min<std::uint64_t>(k_, sum_ + budget);
        return static_cast<std::uint32_t>(sum_);
    }

 private:
    std::uint64_t k_;
    std::uint64_t sum_ = 0;
};

}  // namespace

// Everything that colouring needs: for each cell of each table the colour, and for each child after the first
// how many of the blue switches go to it.
struct Soar::Trace {
    Problem problem;
    Layout layout;
    std::uint32_t width = 1;
    std::vector<std::uint64_t> colour_at;      // per candidate switch, into `byte`
    std::vector<std::uint64_t> split_at;       // per child after the first, into `byte`
    std::vector<std::uint32_t> split_columns;  // per child after the first
    std::vector<std::uint8_t> byte;
    std::uint64_t bytes = 0;

    Trace(Problem given, std::uint32_t k)
        : problem(std::move(given)),
          layout(make_layout(problem.tree, k, find_candidates(problem.tree))),
          width(split_width(std::min<std::uint32_t>(k, layout.budget[problem.tree.root()]))) {
        const std::size_t count = problem.tree.size();
        colour_at.assign(count, kNowhere);
        split_at.assign(count, kNowhere);
        split_columns.assign(count, 0);
        for (const SwitchId id : layout.order) {
            reserve(id, k);
        }
    }

    void reserve(SwitchId id, std::uint32_t k) {
        if (layout.candidate[id] != 0) {
            colour_at[id] = bytes;
            bytes += std::uint64_t{layout.rows[id]} * (layout.budget[id] + std::uint64_t{1});
        }
        Growth growth(k);
        bool first = true;
        for (const SwitchId child : layout.children(id)) {
            const std::uint32_t columns = growth.add(layout.budget[child]) + 1;
            if (!first) {
                split_at[child] = bytes;
                split_columns[child] = columns;
                bytes += std::uint64_t{layout.rows[child]} * columns * width;
            }
            first = false;
        }
    }

    [[nodiscard]] std::span<std::uint8_t> colours(SwitchId id) {
        if (colour_at[id] == kNowhere) {
            return {};
        }
        return std::span(byte).subspan(
            colour_at[id], std::uint64_t{layout.rows[id]} * (layout.budget[id] + std::uint64_t{1}));
    }

    [[nodiscard]] bool is_blue(SwitchId id, std::uint32_t row, std::uint32_t i) const {
        return colour_at[id] != kNowhere &&
               byte[colour_at[id] + std::uint64_t{row} * (layout.budget[id] + std::uint64_t{1}) + i] != 0;
    }

    void store_splits(SwitchId child, std::uint32_t row, std::span<const double> pick) {
        std::uint8_t* to = byte.data() + split_at[child] + std::uint64_t{row} * split_columns[child] * width;
        for (const double value : pick) {
            const auto split = static_cast<std::uint32_t>(value);
            std::memcpy(to, &split, width);  // little-endian: the low bytes come first
            to += width;
        }
    }

    [[nodiscard]] std::uint32_t split(SwitchId child, std::uint32_t row, std::uint32_t i) const {
        std::uint32_t split = 0;
        std::memcpy(&split,
                    byte.data() + split_at[child] + (std::uint64_t{row} * split_columns[child] + i) * width,
                    width);
        return split;
    }
};

static_assert(std::endian::native == std::endian::little, "Trace stores the low bytes of a split");

// One run of SOAR-Gather over a Trace.
class Soar::Gatherer {
 public:
    explicit Gatherer(Trace& trace)
        : trace_(trace),
          reach_(make_reach(trace.problem, trace.layout)),
          lines_(make_lines(trace.problem, trace.layout)) {
        pending_.resize(trace.problem.tree.size());
    }

    // Fills the tables of the subtree of the root and returns the root's.
    Table run(unsigned threads) {
        const SwitchId root = trace_.problem.tree.root();
        std::vector<SwitchId> tasks = threads > 1 ? choose_tasks(threads) : std::vector<SwitchId>{};
        run_tasks(tasks, threads);
        std::vector<bool> done(trace_.problem.tree.size(), false);
        for (const SwitchId id : tasks) {
            done[id] = true;
        }
        Worker worker(*this, tasks.empty());
        for (const SwitchId at : trace_.layout.order) {
            if (!inside_task_[at]) {
                worker.finish(at);
            }
            if ((!inside_task_[at] || done[at]) && at != root) {
                worker.merge(at);
            }
        }
        peak_ = worker.peak();
        return std::move(pending_[root]);
    }

    [[nodiscard]] std::uint64_t peak() const { return peak_; }

    // All red: what a tree costs in which no switch can usefully be blue.
    [[nodiscard]] double cost_without_tables() const {
        const SwitchId root = trace_.problem.tree.root();
        return lines_[root].fixed + lines_[root].slope * trace_.problem.length[root];
    }

 private:
    // The scratch memory of one thread.
    class Worker {
     public:
        Worker(Gatherer& gatherer, bool count) : self_(gatherer), count_(count) {}

        // Turns the sum of the children's tables at `id` into the table of `id`.
        void finish(SwitchId id) {
            Trace& trace = self_.trace_;
            const Layout& layout = trace.layout;
            Table& held = self_.pending_[id];
            distances(self_.reach_, layout, id, distance_);
            const Fold step{.below = layout.inner[id] > 0 ? &held : nullptr,
                            .line = self_.lines_[id],
                            .emitted = trace.problem.emitted[id],
                            .candidate = layout.candidate[id] != 0};
            Table table = fold(step, distance_, layout.budget[id], trace.colours(id));
            account(table.bytes(), held.bytes());
            held = std::move(table);
        }

        // Adds the table of `child` to the sum at its parent, and frees it.
        void merge(SwitchId child) {
            Trace& trace = self_.trace_;
            Table& sum = self_.pending_[trace.problem.tree.parent(child)];
            Table right = std::exchange(self_.pending_[child], Table());
            if (trace.split_at[child] == kNowhere) {
                sum = std::move(right);
                return;
            }
            Table both(right.rows, trace.split_columns[child]);
            pick_.resize(both.columns);
            for (std::uint32_t row = 0; row < both.rows; ++row) {
                min_plus(sum.row(row), right.row(row), both.row(row), pick_);
                trace.store_splits(child, row, pick_);
            }
            account(both.bytes(), sum.bytes() + right.bytes());
            sum = std::move(both);
        }

        [[nodiscard]] std::uint64_t peak() const { return peak_; }

     private:
        void account(std::uint64_t taken, std::uint64_t freed) {
            if (!count_) {
                return;
            }
            live_ += taken;
            peak_ = std::max(peak_, live_);
            live_ -= freed;
        }

        Gatherer& self_;
        bool count_;
        std::vector<double> distance_;
        std::vector<double> pick_;
        std::uint64_t live_ = 0;
        std::uint64_t peak_ = 0;
    };

    // Disjoint subtrees that together hold most of the work, none of them too large to share out.
    std::vector<SwitchId> choose_tasks(unsigned threads) {
        const Layout& layout = trace_.layout;
        const Tree& tree = trace_.problem.tree;
        std::vector<std::uint64_t> work(tree.size(), 0);
        for (const SwitchId id : layout.order) {
            work[id] += std::uint64_t{layout.rows[id]} * (layout.budget[id] + std::uint64_t{1}) *
                        (layout.budget[id] + std::uint64_t{1});
            if (tree.parent(id) != kNoSwitch) {
                work[tree.parent(id)] += work[id];
            }
        }
        const std::uint64_t share = work[tree.root()] / (threads * kTasksPerThread) + 1;
        std::vector<SwitchId> tasks;
        std::vector<SwitchId> open{tree.root()};
        while (!open.empty()) {
            const SwitchId id = open.back();
            open.pop_back();
            if (work[id] <= share) {
                tasks.push_back(id);
                continue;
            }
            const auto children = layout.children(id);
            open.insert(open.end(), children.begin(), children.end());
        }
        std::sort(tasks.begin(), tasks.end(), [&work](SwitchId a, SwitchId b) { return work[a] > work[b]; });
        return tasks;
    }

    void run_tasks(const std::vector<SwitchId>& tasks, unsigned threads) {
        const auto& layout = trace_.layout;
        inside_task_.assign(trace_.problem.tree.size(), 0);
        position_.resize(trace_.problem.tree.size());
        for (std::uint32_t at = 0; at < layout.order.size(); ++at) {
            position_[layout.order[at]] = at;
        }
        for (const SwitchId id : tasks) {
            for (std::uint32_t at = layout.begin[id]; at <= position_[id]; ++at) {
                inside_task_[layout.order[at]] = 1;
            }
        }
        std::atomic<std::size_t> next{0};
        const auto work = [&] {
            Worker worker(*this, false);
            for (std::size_t at = next++; at < tasks.size(); at = next++) {
                run_subtree(worker, tasks[at]);
            }
        };
        std::vector<std::jthread> helpers;
        for (std::size_t t = 1; t < std::min<std::size_t>(threads, tasks.size()); ++t) {
            helpers.emplace_back(work);
        }
        work();
    }

    void run_subtree(Worker& worker, SwitchId top) {
        const auto& layout = trace_.layout;
        for (std::uint32_t at = layout.begin[top]; at <= position_[top]; ++at) {
            worker.finish(layout.order[at]);
            if (layout.order[at] != top) {
                worker.merge(layout.order[at]);
            }
        }
    }

    Trace& trace_;
    Reach reach_;
    std::vector<Line> lines_;
    std::vector<Table>
        pending_;  // per switch: the sum of its finished children, then its own table until merged
    std::vector<std::uint8_t> inside_task_;
    std::vector<std::uint32_t> position_;
    std::uint64_t peak_ = 0;
};

Soar::Soar(std::unique_ptr<Trace> trace) : trace_(std::move(trace)) {}
Soar::Soar(Soar&&) noexcept = default;
Soar& Soar::operator=(Soar&&) noexcept = default;
Soar::~Soar() = default;

const Problem& Soar::problem() const {
    return trace_->problem;
}

Result<Soar> Soar::gather(Problem problem, std::uint32_t k, const SoarOptions& options) {
    auto trace = std::make_unique<Trace>(std::move(problem), k);
    if (trace->bytes > options.memory_limit) {
        return Error(Errc::kLimit, "placing " + std::to_string(k) + " of " +
                                       std::to_string(trace->problem.tree.size()) + " switches takes " +
                                       std::to_string(trace->bytes) + " bytes, above the limit of " +
                                       std::to_string(options.memory_limit) +
                                       "; lower k, make fewer switches available, or raise the limit");
    }
    trace->byte.assign(trace->bytes, 0);
    Soar soar(std::move(trace));
    soar.trace_bytes_ = soar.trace_->bytes;
    Gatherer gatherer(*soar.trace_);
    if (soar.trace_->layout.order.empty()) {
        soar.curve_ = {gatherer.cost_without_tables()};
        return soar;
    }
    const Table table = gatherer.run(std::max(1U, options.threads));
    soar.peak_table_bytes_ = gatherer.peak();
    const auto row = table.row(0);
    soar.curve_.assign(row.begin(), row.end());
    return soar;
}

double Soar::cost(std::uint32_t i) const {
    return curve_[std::min<std::size_t>(i, curve_.size() - 1)];
}

std::vector<SwitchId> Soar::colour(std::uint32_t i) const {
    const Layout& layout = trace_->layout;
    std::vector<SwitchId> blue;
    if (layout.order.empty()) {
        return blue;
    }
    i = std::min<std::uint32_t>(i, static_cast<std::uint32_t>(curve_.size() - 1));
    while (i > 0 && curve_[i - 1] == curve_[i]) {
        --i;
    }
    struct Visit {
        SwitchId id;
        std::uint32_t row;
        std::uint32_t budget;
    };
    std::vector<Visit> open{{trace_->problem.tree.root(), 0, i}};
    while (!open.empty()) {
        auto [id, row, budget] = open.back();
        open.pop_back();
        budget = std::min(budget, layout.budget[id]);
        if (budget == 0) {
            continue;
        }
        if (trace_->is_blue(id, row, budget)) {
            blue.push_back(id);
            row = layout.rows[id];
            --budget;
        }
        const auto children = layout.children(id);
        for (std::size_t at = children.size(); at-- > 1;) {
            const SwitchId child = children[at];
            budget = std::min(budget, trace_->split_columns[child] - 1);
            const std::uint32_t share = trace_->split(child, row, budget);
            open.push_back({child, row, share});
            budget -= share;
        }
        if (!children.empty()) {
            open.push_back({children[0], row, budget});
        }
    }
    std::sort(blue.begin(), blue.end());
    return blue;
}

std::uint64_t Soar::trace_bytes_for(Problem problem, std::uint32_t k) {
    return Trace(std::move(problem), k).bytes;
}

}  // namespace ask::placement
