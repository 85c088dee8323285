// SPDX-License-Identifier: Apache-2.0
#include "bench/allreduce/vectors.h"

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

Result<> measure(const Work& work, Way& way) {
    std::vector<std::byte> own;
    std::byte* vector = way.place((work.count + kSpareElements) * size_of(work.dtype));
    if (vector == nullptr) {
        own.resize((work.count + kSpareElements) * size_of(work.dtype));
        vector = own.data();
    }
    // A sum needs everybody: one of a few elements is a barrier.
    std::vector<std::byte> few(2 * kSpareElements * size_of(work.dtype));
    std::vector<double> seconds;
    Cpu spent;
    for (unsigned run = 0; run <= work.runs; ++run) {
        fill(work, run, vector);
        ASK_PASS(way.reduce(few.data(), kSpareElements));
        const Cpu cpu = cpu_seconds();
        const double began = now();
        ASK_PASS(way.reduce(vector, work.count));
        if (run > 0) {
            seconds.push_back(now() - began);
            spent = spent + (cpu_seconds() - cpu);
        }
        ASK_PASS(check(work, run, vector));
    }
    const nlohmann::ordered_json json = {
        {"seconds", seconds}, {"user", spent.user}, {"system", spent.system}, {"bytes", work.bytes()}};
    std::puts(json.dump().c_str());
    return {};
}

}  // namespace ask::bench
