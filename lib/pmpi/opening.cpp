// SPDX-License-Identifier: Apache-2.0
#include "lib/pmpi/opening.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/pmpi/waiting.h"

namespace ask::pmpi {
namespace {

// An operation may be waited for as long as ranks compute, so as long as agents allow: a day.
constexpr std::uint32_t kLongestMs = 86'400'000;
constexpr const char* kDefaultAgent = "/run/ask/agent.sock";
constexpr int kGaveUp = 1;  // a tag
constexpr int kBootIdLength = 36;

// What a rank tells all others before anybody opens. Without padding: it is sent as it lies.
struct Rank {
    std::array<char, 40> boot;  // which kernel, and which socket there: ranks of one agent are on one host
    std::uint64_t device;
    std::uint64_t inode;
    std::uint64_t drawn;                 // rank 0's is the group's number
    std::uint64_t is_root;               // its host is the one that ASK_PMPI_ROOT names
    std::array<char, kHostLength> host;  // as agents know it
    std::array<char, kTextLength> trouble;
};
static_assert(std::has_unique_object_representations_v<Rank>);

// How it ended at a rank.
struct Outcome {
    std::int32_t code;                      // libask's
    std::array<char, kTextLength> trouble;  // "": opened
};

void find_agent(Rank& mine) {
    const char* const asked = variable("ASK_AGENT");
    std::string path = *asked == '\0' ? kDefaultAgent : asked;
    if (constexpr std::string_view kScheme = "unix:"; path.starts_with(kScheme)) {
        path.erase(0, kScheme.size());
    }
    struct stat its{};
    if (::stat(path.c_str(), &its) != 0 || !S_ISSOCK(its.st_mode)) {
        put_text(mine.trouble, ("no agent's socket at " + path + ": is ask-agentd running?").c_str());
        return;
    }
    mine.device = its.st_dev;
    mine.inode = its.st_ino;
    std::ifstream("/proc/sys/kernel/random/boot_id").read(mine.boot.data(), kBootIdLength);
}

std::string text_of(const sockaddr& address) {
    const auto length =
        static_cast<socklen_t>(address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    std::array<char, kHostLength> text{};
    return ::getnameinfo(&address, length, text.data(), static_cast<socklen_t>(text.size()), nullptr, 0,
                         NI_NUMERICHOST) == 0
               ? text.data()
               : "";
}

// Whether it means another host on another link.
bool is_link_local(const sockaddr& address) {
    sockaddr_in6 ipv6{};
    if (address.sa_family != AF_INET6) {
        return false;
    }
    std::memcpy(&ipv6, &address, sizeof ipv6);
    return IN6_IS_ADDR_LINKLOCAL(&ipv6.sin6_addr) != 0;
}

// Addresses of a family of this host's interfaces, without loopback.
std::vector<std::string> own_addresses(sa_family_t family) {
    std::vector<std::string> all;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) {
        return all;
    }
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family ||
            (each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0 ||
            is_link_local(*each->ifa_addr)) {
            continue;
        }
        all.push_back(text_of(*each->ifa_addr));
    }
    ::freeifaddrs(list);
    return all;
}

// By which agents know it: those of IPv4, or, where there is none, of IPv6.
std::vector<std::string> own_addresses() {
    auto all = own_addresses(AF_INET);
    return all.empty() ? own_addresses(AF_INET6) : all;
}

// The address that a name stands for, of the family of another, which is text; "": none.
std::string resolve(const char* name, const std::string& like) {
    const addrinfo hints{.ai_flags = 0,
                         .ai_family = like.find(':') == std::string::npos ? AF_INET : AF_INET6,
                         .ai_socktype = SOCK_STREAM,
                         .ai_protocol = 0,
                         .ai_addrlen = 0,
                         .ai_addr = nullptr,
                         .ai_canonname = nullptr,
                         .ai_next = nullptr};
    addrinfo* found = nullptr;
    if (::getaddrinfo(name, nullptr, &hints, &found) != 0) {
        return "";
    }
    std::string text = text_of(*found->ai_addr);
    ::freeaddrinfo(found);
    return text;
}

void find_host(Rank& mine, const Settings& settings) {
    const auto addresses = own_addresses();
    const char* const named = variable("ASK_PMPI_HOST");
    if (*named != '\0') {
        put_text(mine.host, named);
    } else if (addresses.size() == 1) {
        put_text(mine.host, addresses.front().c_str());
    } else if (mine.trouble[0] == '\0') {
        put_text(mine.trouble, ("its host has " + std::to_string(addresses.size()) +
                                " addresses: set ASK_PMPI_HOST to the one that agents know")
                                   .c_str());
    }
    if (settings.root[0] == '\0') {
        return;
    }
    const std::string root = resolve(settings.root.data(), addresses.empty() ? "" : addresses.front());
    // A name may be one that agents know and no resolver does: the host's own is asked, too.
    std::array<char, kHostLength> name{};
    static_cast<void>(::gethostname(name.data(), name.size() - 1));
    bool is_root = std::strcmp(mine.host.data(), settings.root.data()) == 0 ||
                   std::strcmp(name.data(), settings.root.data()) == 0;
    for (const auto& address : addresses) {
        is_root = is_root || address == root;
    }
    mine.is_root = is_root ? 1 : 0;
}

Rank describe_this(const Settings& settings) {
    Rank mine{};
    find_agent(mine);
    find_host(mine, settings);
    if (::getrandom(&mine.drawn, sizeof mine.drawn, 0) != sizeof mine.drawn && mine.trouble[0] == '\0') {
        put_text(mine.trouble, "no random number to be had");
    }
    return mine;
}

bool same_agent(const Rank& one, const Rank& other) {
    return one.boot == other.boot && one.device == other.device && one.inode == other.inode;
}

// Of each rank its host, numbered as they come.
std::vector<int> hosts_of(const std::vector<Rank>& ranks) {
    std::vector<int> hosts;
    std::vector<const Rank*> leaders;
    for (const Rank& rank : ranks) {
        const auto at =
            std::ranges::find_if(leaders, [&](const Rank* other) { return same_agent(rank, *other); });
        hosts.push_back(static_cast<int>(at - leaders.begin()));
        if (at == leaders.end()) {
            leaders.push_back(&rank);
        }
    }
    return hosts;
}

// From what all ranks have: the same answer everywhere. "": nothing is in the way.
std::string obstacle(const std::vector<Rank>& ranks, int hosts) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (ranks[rank].trouble[0] != '\0') {
            return "rank " + std::to_string(rank) + ": " + ranks[rank].trouble.data();
        }
    }
    if (hosts < 2 || hosts > static_cast<int>(ASK_GROUP_MAX_SIZE)) {
        return "its ranks are on " + std::to_string(hosts) + " hosts: a group has 2 to " +
               std::to_string(ASK_GROUP_MAX_SIZE);
    }
    return "";
}

// The rank whose host coordinates.
std::size_t root_of(const std::vector<Rank>& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (ranks[rank].is_root != 0) {
            return rank;
        }
    }
    return 0;
}

std::string name_of(const Settings& settings, std::uint64_t drawn) {
    std::array<char, 20> number{};
    static_cast<void>(std::snprintf(number.data(), number.size(), "-%016" PRIx64, drawn));
    return settings.prefix.data() + std::string(number.data());
}

// ask_group_open() in a thread of its own, which calls nothing of MPI's, while this one looks after MPI.
class Opener {
 public:
    Opener(const ask_group_options& options, int cancel) : cancel_(cancel) {
        sigset_t all;
        sigset_t before;
        ::sigfillset(&all);
        // The program's handlers are not for threads that it does not know.
        ::pthread_sigmask(SIG_SETMASK, &all, &before);
        thread_ = std::thread([this, options] {
            code_ = ask_group_open(&options, &group_);
            text_ = code_ == ASK_OK ? "" : ask_error();
            done_.store(true, std::memory_order_release);
        });
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    Opener(const Opener&) = delete;
    Opener& operator=(const Opener&) = delete;
    ~Opener() {
        if (thread_.joinable()) {
            cancel();
            thread_.join();
            ask_group_close(group_);
        }
    }
    [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
    void cancel() const { static_cast<void>(::eventfd_write(cancel_, 1)); }
    // Once it is done.
    Outcome take(ask_group** group) {
        thread_.join();
        *group = group_;
        Outcome outcome{};
        outcome.code = code_;
        put_text(outcome.trouble, code_ == ASK_OK ? "" : text_.empty() ? "unknown error" : text_.c_str());
        return outcome;
    }

 private:
    int cancel_;
    std::thread thread_;
    std::atomic<bool> done_ = false;
    int code_ = ASK_E_INTERNAL;
    ask_group* group_ = nullptr;
    std::string text_;
};

// Until it is done. A rank that has given up says so to all others, who would wait for it in vain. `why`:
// what made this one give up, if anything did.
int wait_for(Opener& opener, MPI_Comm aside, std::chrono::seconds longest, Outcome* why) {
    const auto until = std::chrono::steady_clock::now() + longest;
    bool cancelled = false;
    for (Pause pause; !opener.done(); pause.once()) {
        int given_up = 0;
        MPI_Status status{};
        if (const int code = PMPI_Iprobe(MPI_ANY_SOURCE, kGaveUp, aside, &given_up, &status);
            code != MPI_SUCCESS) {
            return code;
        }
        const bool late = std::chrono::steady_clock::now() > until;
        if (!cancelled && (given_up != 0 || late)) {
            const std::string text =
                given_up != 0 ? "rank " + std::to_string(status.MPI_SOURCE) + " has given up"
                              : "not open within " + std::to_string(longest.count()) + " s (ASK_PMPI_JOIN)";
            why->code = given_up != 0 ? ASK_E_ABORTED : ASK_E_DEADLINE;
            put_text(why->trouble, text.c_str());
            opener.cancel();
            cancelled = true;
        }
    }
    return MPI_SUCCESS;
}

// How it ended at all ranks. Messages of those who gave up are taken from the wire.
int compare(MPI_Comm aside, int rank, const Outcome& mine, std::vector<Outcome>* all) {
    const bool failed = mine.trouble[0] != '\0';
    std::vector<MPI_Request> requests;
    for (int other = 0; failed && other < static_cast<int>(all->size()); ++other) {
        if (other != rank) {
            requests.push_back(MPI_REQUEST_NULL);
            if (const int code = PMPI_Isend(nullptr, 0, MPI_BYTE, other, kGaveUp, aside, &requests.back());
                code != MPI_SUCCESS) {
                return code;
            }
        }
    }
    if (const int code =
            PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all->data(), sizeof mine, MPI_BYTE, aside);
        code != MPI_SUCCESS) {
        return code;
    }
    for (int other = 0; other < static_cast<int>(all->size()); ++other) {
        if (other != rank && (*all)[static_cast<std::size_t>(other)].trouble[0] != '\0') {
            if (const int code = PMPI_Recv(nullptr, 0, MPI_BYTE, other, kGaveUp, aside, MPI_STATUS_IGNORE);
                code != MPI_SUCCESS) {
                return code;
            }
        }
    }
    return PMPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// The first reason that is a rank's own, not another's that it heard of: from that rank, or from its agent.
std::string reason_of(const std::vector<Outcome>& all) {
    std::string heard;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const std::string text = all[rank].trouble.data();
        if (all[rank].code != ASK_E_ABORTED && !text.empty()) {
            return "rank " + std::to_string(rank) + ": " + text;
        }
        heard = heard.empty() ? text : heard;
    }
    return heard;
}

// At the ranks that lead, and at all others at once: how it ended everywhere.
int open_together(MPI_Comm aside, int rank, bool leads, const ask_group_options& options,
                  const Settings& settings, Opened* opened) {
    Outcome mine{};
    ask_group* group = nullptr;
    if (leads) {
        Opener opener(options, opened->cancel.get());
        Outcome why{};
        if (const int code = wait_for(opener, aside, std::chrono::seconds(settings.join_seconds), &why);
            code != MPI_SUCCESS) {
            return code;
        }
        mine = opener.take(&group);
        if (mine.code != ASK_OK && why.code != ASK_OK) {
            mine = why;
        }
    }
    std::vector<Outcome> all(opened->host_of.size());
    const int code = compare(aside, rank, mine, &all);
    opened->why_not = reason_of(all);
    if (code != MPI_SUCCESS || !opened->why_not.empty()) {
        ask_group_close(group);
        return code;
    }
    opened->group = group;
    return MPI_SUCCESS;
}

// All ranks' words, in their order.
int ask_all(MPI_Comm comm, const Settings& settings, std::vector<Rank>* ranks) {
    int size = 0;
    if (const int code = PMPI_Comm_size(comm, &size); code != MPI_SUCCESS) {
        return code;
    }
    ranks->resize(static_cast<std::size_t>(size));
    const Rank mine = describe_this(settings);
    return PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, ranks->data(), sizeof mine, MPI_BYTE, comm);
}

}  // namespace

int open_group(MPI_Comm comm, const Settings& settings, std::size_t arena_bytes, Opened* opened) {
    int rank = 0;
    if (const int code = PMPI_Comm_rank(comm, &rank); code != MPI_SUCCESS) {
        return code;
    }
    std::vector<Rank> ranks;
    if (const int code = ask_all(comm, settings, &ranks); code != MPI_SUCCESS) {
        return code;
    }
    opened->host_of = hosts_of(ranks);
    const int hosts = 1 + *std::ranges::max_element(opened->host_of);
    opened->why_not = obstacle(ranks, hosts);
    if (!opened->why_not.empty()) {
        return MPI_SUCCESS;
    }
    const int host = opened->host_of[static_cast<std::size_t>(rank)];
    const bool leads = std::ranges::find(opened->host_of, host) - opened->host_of.begin() == rank;
    const std::string name = name_of(settings, ranks[0].drawn);
    const std::size_t root = root_of(ranks);
    const char* const token = variable("ASK_TOKEN");
    opened->cancel.reset(::eventfd(0, EFD_CLOEXEC));
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    options.group = name.c_str();
    options.root = ranks[root].is_root != 0 ? settings.root.data() : ranks[root].host.data();
    options.rank = static_cast<std::uint32_t>(host);
    options.size = static_cast<std::uint32_t>(hosts);
    options.deadline_ms = kLongestMs;
    options.cancel_fd = opened->cancel.get();
    options.token = *token == '\0' ? nullptr : token;
    options.arena_bytes = arena_bytes;
    // Not MPI_Comm_dup: that calls the program's functions for its attributes.
    MPI_Comm aside = MPI_COMM_NULL;
    if (const int code = PMPI_Comm_split(comm, 0, rank, &aside); code != MPI_SUCCESS) {
        return code;
    }
    int code = open_together(aside, rank, leads, options, settings, opened);
    if (code == MPI_SUCCESS && opened->why_not.empty() && hosts < static_cast<int>(ranks.size())) {
        code = PMPI_Comm_split(aside, host, rank, &opened->on_host);
    }
    const int freed = PMPI_Comm_free(&aside);
    return code != MPI_SUCCESS ? code : freed;
}

}  // namespace ask::pmpi
