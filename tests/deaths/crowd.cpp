// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-crowd HOST:PORT N: opens N connections and says nothing on them, prints how many are open, and
// keeps them until its standard input ends.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/net/address.h"

int main(int argc, char** argv) {
    const auto where =
        argc == 3 ? ask::split_host_port(argv[1]) : ask::Result<ask::HostPort>(ask::HostPort{});
    const auto ipv4 = where.ok() ? ask::parse_ipv4(where->host) : std::nullopt;
    const int wanted = argc == 3 ? std::atoi(argv[2]) : 0;
    if (!ipv4 || wanted <= 0) {
        std::fprintf(stderr, "usage: ask-e2e-crowd HOST:PORT N\n");
        return 2;
    }
    rlimit limit{.rlim_cur = 65536, .rlim_max = 65536};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(*ipv4);
    to.sin_port = htons(where->port);
    std::vector<ask::UniqueFd> open;
    for (int i = 0; i < wanted; ++i) {
        ask::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) {
            open.push_back(std::move(fd));
        }
    }
    std::printf("%zu\n", open.size());
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
}
