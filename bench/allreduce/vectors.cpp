// SPDX-License-Identifier: Apache-2.0
#include "bench/allreduce/vectors.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/allreduce/traffic.h"

namespace ask::bench {
namespace {

template <typename T>
void add_as(std::byte* into, const std::byte* from, std::size_t bytes) {
    T* const sum = reinterpret_cast<T*>(into);
    const T* const more = reinterpret_cast<const T*>(from);
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
        sum[i] += more[i];
    }
}

// Sums of 64 members stay far below 2^24, which float32 counts exactly.
constexpr std::uint32_t kBelow = 1024;

std::uint32_t element(std::size_t at, unsigned rank, unsigned run) {
    return static_cast<std::uint32_t>(at * 31 + std::size_t{rank} * 7 + run) % kBelow;
}

template <typename T>
void fill_as(const Work& work, unsigned run, std::byte* vector) {
    T* const values = reinterpret_cast<T*>(vector);
    for (std::size_t i = 0; i < work.count; ++i) {
        values[i] = static_cast<T>(element(i, work.rank, run));
    }
}

template <typename T>
Result<> check_as(const Work& work, unsigned run, const std::byte* vector) {
    const T* const values = reinterpret_cast<const T*>(vector);
    for (std::size_t i = 0; i < work.count; ++i) {
        std::uint32_t sum = 0;
        for (unsigned rank = 0; rank < work.size; ++rank) {
            sum += element(i, rank, run);
        }
        if (values[i] != static_cast<T>(sum)) {
            return Error(Errc::kInternal, "run " + std::to_string(run) + ", element " + std::to_string(i) +
                                              ": " + std::to_string(values[i]) + ", expected " +
                                              std::to_string(sum));
        }
    }
    return {};
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

struct Cpu {
    double user = 0;
    double system = 0;
    Cpu operator+(const Cpu& other) const { return {user + other.user, system + other.system}; }
    Cpu operator-(const Cpu& other) const { return {user - other.user, system - other.system}; }
};

Cpu cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return {seconds_of(usage.ru_utime), seconds_of(usage.ru_stime)};
}

// That all processors have been busy so far, softirqs included.
double machine_seconds() {
    std::ifstream file("/proc/stat");
    std::string name;
    std::array<double, 8> ticks{};  // user nice system idle iowait irq softirq steal
    file >> name;
    for (double& each : ticks) {
        file >> each;
    }
    return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) /
           static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

std::size_t size_of(Dtype dtype) {
    return dtype == Dtype::kInt64 || dtype == Dtype::kFloat64 ? 8 : 4;
}

void add(Dtype dtype, std::byte* into, const std::byte* from, std::size_t bytes) {
    switch (dtype) {
        case Dtype::kInt32:
            return add_as<std::uint32_t>(into, from, bytes);
        case Dtype::kInt64:
            return add_as<std::uint64_t>(into, from, bytes);
        case Dtype::kFloat32:
            return add_as<float>(into, from, bytes);
        case Dtype::kFloat64:
            return add_as<double>(into, from, bytes);
    }
}

void fill(const Work& work, unsigned run, std::byte* vector) {
    switch (work.dtype) {
        case Dtype::kInt32:
            return fill_as<std::int32_t>(work, run, vector);
        case Dtype::kInt64:
            return fill_as<std::int64_t>(work, run, vector);
        case Dtype::kFloat32:
            return fill_as<float>(work, run, vector);
        case Dtype::kFloat64:
            return fill_as<double>(work, run, vector);
    }
}

Result<> check(const Work& work, unsigned run, const std::byte* vector) {
    switch (work.dtype) {
        case Dtype::kInt32:
            return check_as<std::int32_t>(work, run, vector);
        case Dtype::kInt64:
            return check_as<std::int64_t>(work, run, vector);
        case Dtype::kFloat32:
            return check_as<float>(work, run, vector);
        case Dtype::kFloat64:
            return check_as<double>(work, run, vector);
    }
    return {};
}

namespace {

// What a member does, and what it saw.
class Measurement {
 public:
    Measurement(const Work& work, Way& way) : work_(work), way_(way) {
        vector_ = way.place(work.room());
        if (vector_ == nullptr) {
            own_.resize(work.room());
            vector_ = own_.data();
        }
        few_ = vector_ + work.short_at();
    }

    Result<std::string> run() {
        ASK_PASS(run_long());
        std::vector<double> shorts;
        ASK_PASS(run_short(shorts, [this] { return sum_few(); }));
        std::vector<double> barriers;
        ASK_PASS(run_short(barriers, [this] { return way_.barrier(few_); }));
        ASK_PASS(way_.leave());
        const nlohmann::ordered_json json = {
            {"seconds", seconds_},    {"short", shorts},         {"barrier", barriers},
            {"user", spent_.user},    {"system", spent_.system}, {"machine", machine_},
            {"bytes", work_.bytes()}, {"link", to_json(link_)},  {"note", way_.note()}};
        return json.dump();
    }

 private:
    Result<> sum_few() {
        ASK_PASS(way_.reduce(few_, kSpareElements));
        return {};
    }

    Result<> run_long() {
        Traffic before;
        for (unsigned run = 0; run <= work_.runs; ++run) {
            fill(work_, run, vector_);
            // A sum needs everybody: one of a few elements is a barrier.
            ASK_PASS(way_.reduce(few_, kSpareElements));
            if (run == 1) {
                before = traffic();
            }
            ASK_PASS(run_once(run));
        }
        ASK_PASS(way_.reduce(few_, kSpareElements));
        link_ = traffic() - before;
        return {};
    }

    Result<> run_once(unsigned run) {
        const Cpu cpu = cpu_seconds();
        const double machine = machine_seconds();
        const double began = now();
        if (work_.late_ms > 0 && work_.rank == work_.late_rank) {
            // What is measured: a member that comes late.
            std::this_thread::sleep_for(std::chrono::milliseconds(work_.late_ms));
        }
        const auto sum = way_.reduce(vector_, work_.count);
        ASK_PASS(sum);
        if (run > 0) {
            seconds_.push_back(now() - began);
            spent_ = spent_ + (cpu_seconds() - cpu);
            machine_ += machine_seconds() - machine;
        }
        return check(work_, run, *sum);
    }

    template <typename Operation>
    Result<> run_short(std::vector<double>& took, const Operation& operation) {
        for (unsigned i = 0; i < work_.shorts; ++i) {
            const double began = now();
            ASK_PASS(operation());
            took.push_back(now() - began);
        }
        return {};
    }

    const Work& work_;
    Way& way_;
    std::vector<std::byte> own_;
    std::byte* vector_ = nullptr;
    std::byte* few_ = nullptr;
    std::vector<double> seconds_;
    Cpu spent_;
    double machine_ = 0;
    Traffic link_;
};

}  // namespace

Result<std::string> measure(const Work& work, Way& way) {
    return Measurement(work, way).run();
}

}  // namespace ask::bench
