// SPDX-License-Identifier: Apache-2.0
//
// An agent for the members of one group, all of them its own: real socket, real shared memory, sums computed
// here. Of the library's insides this shows none, for tests that see what a program of others sees.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ask {
class LocalListener;
}

namespace ask::test {

// It knows no products: of an agent that is older than the library.

class GroupAgent {
 public:
    // `fails_at`: the operation at which the group fails instead; 0: none. `holds`: no operation ever ends.
    explicit GroupAgent(unsigned members, std::uint64_t fails_at = 0, bool holds = false);
    GroupAgent(const GroupAgent&) = delete;
    GroupAgent& operator=(const GroupAgent&) = delete;
    // While it runs, whoever opens another group is refused by what it asked for.
    // Once all members have gone.
    ~GroupAgent();
    [[nodiscard]] const std::string& socket() const { return path_; }

 private:
    struct Member;
    void run();
    void admit();
    void refuse();
    bool serve(Member& member);
    void reduce();
    std::string dir_;
    std::string path_;
    unsigned size_;
    std::uint64_t fails_at_;
    bool holds_;
    std::unique_ptr<LocalListener> listener_;
    std::vector<std::unique_ptr<Member>> members_;
    std::thread thread_;
};

}  // namespace ask::test
