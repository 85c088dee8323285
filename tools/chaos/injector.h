// SPDX-License-Identifier: Apache-2.0
//
// The fault injector's half in user space: loads and attaches the programs, keeps the frames that are to come
// late, and sends each when its time has come.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/bpf/map.h"
#include "lib/daemon/service.h"
#include "tools/chaos/chaos.h"

namespace ask::chaos {

struct InjectorOptions {
    unsigned links = 1;
    std::filesystem::path pin_dir;      // on a bpffs; the daemon's own
    std::size_t most_frames = 1 << 17;  // held at once
    // Of every link, each way: bits of frames a second; 0: as fast as it goes. Interfaces have a qdisc of
    // that rate.
    std::uint64_t rate = 0;
    std::uint32_t queue = 0;  // bytes that wait at most
};

// Interfaces are h1, h2 ... towards the hosts, or the lower ends of links, and s1, s2 ... towards the
// switches.
class Injector {
 public:
    static Result<std::unique_ptr<Injector>> create(const InjectorOptions& options);
    ~Injector();
    Injector(const Injector&) = delete;
    Injector& operator=(const Injector&) = delete;

    // Until a signal comes.
    Result<> run(SignalEvents& signals);

 private:
    class Programs;
    // A frame in waiting. Frames of one time leave in the order in which they came.
    struct Late {
        std::uint64_t due;
        std::uint64_t number;
        std::uint32_t port;
        std::vector<std::byte> bytes;
        bool operator>(const Late& other) const {
            return due != other.due ? due > other.due : number > other.number;
        }
    };

    explicit Injector(const InjectorOptions& options);
    Result<> set_up();
    static int on_frame(void* self, void* data, std::size_t bytes);
    void keep(const ChaosFrame& frame);
    void release(std::uint64_t now);
    [[nodiscard]] bool send(const Late& frame) const;
    Result<> wait(const SignalEvents& signals) const;

    InjectorOptions options_;
    std::unique_ptr<Programs> programs_;
    bpf::ArrayView<ChaosHeld> held_;
    UniqueFd socket_;
    std::priority_queue<Late, std::vector<Late>, std::greater<>> waiting_;
    std::uint64_t kept_ = 0;
};

}  // namespace ask::chaos
