// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <sstream>

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include "lib/abi/wire.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/version.h"
#include "lib/net/netlink.h"

namespace ask {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// A scrape that hangs leaves the other one.
constexpr std::size_t kHttpThreads = 2;

ClientMetric with_labels(MetricLabels labels) {
    ClientMetric metric;
    for (const auto& [name, value] : labels) {
        metric.label.push_back({name, value});
    }
    return metric;
}

// Field `number` of proc(5)'s /proc/self/stat, from 3 on: behind the name, which may have anything in it.
double process_stat(unsigned number) {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) {
        return 0;
    }
    std::istringstream fields(line.substr(name_end + 1));
    std::string field;
    for (unsigned at = 3; at <= number; ++at) {
        fields >> field;
    }
    return field.empty() ? 0 : std::stod(field);
}

// Since 1970.
double boot_time() {
    std::ifstream file("/proc/stat");
    std::string word;
    double seconds = 0;
    while (file >> word) {
        if (word == "btime") {
            file >> seconds;
            break;
        }
    }
    return seconds;
}

double open_descriptors() {
    DIR* const folder = ::opendir("/proc/self/fd");
    if (folder == nullptr) {
        return 0;
    }
    double count = -3;                      // ".", "..", and the folder's own
    while (::readdir(folder) != nullptr) {  // NOLINT(concurrency-mt-unsafe): nobody else has this one
        ++count;
    }
    ::closedir(folder);
    return count;
}

double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

MetricFamily gauge_family(std::string name, std::string help) {
    return {.name = std::move(name), .help = std::move(help), .type = MetricType::Gauge, .metric = {}};
}

MetricFamily counter_family(std::string name, std::string help) {
    return {.name = std::move(name), .help = std::move(help), .type = MetricType::Counter, .metric = {}};
}

MetricFamily histogram_family(std::string name, std::string help) {
    return {.name = std::move(name), .help = std::move(help), .type = MetricType::Histogram, .metric = {}};
}

void add_gauge(MetricFamily& family, MetricLabels labels, double value) {
    ClientMetric metric = with_labels(labels);
    metric.gauge.value = value;
    family.metric.push_back(std::move(metric));
}

void add_counter(MetricFamily& family, MetricLabels labels, std::uint64_t value) {
    ClientMetric metric = with_labels(labels);
    metric.counter.value = static_cast<double>(value);
    family.metric.push_back(std::move(metric));
}

void add_histogram(MetricFamily& family, MetricLabels labels, std::span<const double> bounds,
                   std::span<const std::uint64_t> counts, double sum) {
    ClientMetric metric = with_labels(labels);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        below += counts[i];
        const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
        metric.histogram.bucket.push_back({.cumulative_count = below, .upper_bound = bound});
    }
    metric.histogram.sample_count = below;
    metric.histogram.sample_sum = sum;
    family.metric.push_back(std::move(metric));
}

MetricFamily gauge(std::string name, std::string help, double value) {
    MetricFamily family = gauge_family(std::move(name), std::move(help));
    add_gauge(family, {}, value);
    return family;
}

MetricFamily counter(std::string name, std::string help, std::uint64_t value) {
    MetricFamily family = counter_family(std::move(name), std::move(help));
    add_counter(family, {}, value);
    return family;
}

void add_process_metrics(const std::string& prefix, MetricFamilies& families) {
    MetricFamily build = gauge_family(
        prefix + "_build_info", "1; version is the daemon's, wire_version that of the packets it speaks");
    add_gauge(build, {{"version", std::string(kVersion)}, {"wire_version", std::to_string(ASK_WIRE_VERSION)}},
              1);
    families.push_back(std::move(build));

    const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    MetricFamily cpu =
        counter_family("process_cpu_seconds_total", "CPU time of this daemon, user and system");
    add_counter(cpu, {}, 0);
    cpu.metric.back().counter.value = cpu_seconds();
    families.push_back(std::move(cpu));
    families.push_back(gauge("process_resident_memory_bytes", "Memory of this daemon that is there",
                             process_stat(24) * page));
    families.push_back(
        gauge("process_virtual_memory_bytes", "Address space of this daemon", process_stat(23)));
    families.push_back(gauge("process_threads", "Threads of this daemon", process_stat(20)));
    families.push_back(
        gauge("process_open_fds", "Descriptors that this daemon has open", open_descriptors()));
    families.push_back(gauge("process_max_fds", "Descriptors that it may have open",
                             static_cast<double>(descriptors.rlim_cur)));
    families.push_back(gauge("process_start_time_seconds", "When this daemon was started, since 1970",
                             boot_time() + process_stat(22) / ticks));
}

void add_port_metrics(const std::string& prefix, std::span<const std::string> interfaces,
                      MetricFamilies& families) {
    MetricFamily packets =
        counter_family(prefix + "_port_packets_total", "Packets of the interface, as the kernel counts them");
    MetricFamily bytes = counter_family(prefix + "_port_bytes_total", "Bytes of these");
    MetricFamily dropped = counter_family(
        prefix + "_port_dropped_total",
        "Packets that the interface or the kernel had no room for: for ASK's, rings that were full");
    MetricFamily errors =
        counter_family(prefix + "_port_errors_total", "Packets that were damaged or not sent");
    auto netlink = Netlink::open();
    for (const std::string& name : interfaces) {
        const auto counted =
            netlink.ok() ? netlink->traffic(name) : Result<InterfaceTraffic>(netlink.error());
        if (!counted.ok()) {
            continue;
        }
        for (const bool in : {true, false}) {
            const MetricLabels labels = {{"port", name}, {"direction", in ? "in" : "out"}};
            add_counter(packets, labels, in ? counted->in.packets : counted->out.packets);
            add_counter(bytes, labels, in ? counted->in.bytes : counted->out.bytes);
            add_counter(dropped, labels, in ? counted->in.dropped : counted->out.dropped);
            add_counter(errors, labels, in ? counted->in.errors : counted->out.errors);
        }
    }
    for (MetricFamily* const family : {&packets, &bytes, &dropped, &errors}) {
        families.push_back(std::move(*family));
    }
}

MetricsServer::MetricsServer(std::shared_ptr<prometheus::Collectable> metrics,
                             std::unique_ptr<prometheus::Exposer> exposer)
    : metrics_(std::move(metrics)), exposer_(std::move(exposer)) {
    exposer_->RegisterCollectable(metrics_);
}

MetricsServer::~MetricsServer() = default;

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(
    const std::string& address, std::shared_ptr<prometheus::Collectable> metrics) {
    // The library reports a port that is taken by an exception, which does not say that.
    ASK_PASS(check_listen("metrics", address));
    try {
        return std::make_unique<MetricsServer>(std::move(metrics),
                                               std::make_unique<prometheus::Exposer>(address, kHttpThreads));
    } catch (const std::exception& error) {
        return Error(Errc::kUnavailable, "metrics: cannot listen on " + address + ": " + error.what());
    }
}

}  // namespace ask
