// SPDX-License-Identifier: Apache-2.0
//
// Parts of tools/bench job that are not the product: tuples to count, a way to count them without it, and a
// stopwatch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace ask::bench {

// What a key looks like.
enum class Form {
    kNumber,   // hexadecimal, up to 8 bytes
    kAddress,  // IPv4, as text
    kPath,     // of a URL
};
// As many different addresses or paths, the same in every run. kLimit: there are not so many.
Result<std::vector<std::string>> keys_of(Form form, std::uint32_t keys);

struct Generation {
    std::uint32_t keys = 1U << 16U;
    std::uint64_t tuples = 0;
    bool zipf = false;  // otherwise uniform
    double exponent = 1;
    Form form = Form::kNumber;
    int base = 16;           // of numbers
    std::uint32_t seed = 1;  // who sends
    std::string tally;       // a file for how often each key was drawn: 64-bit numbers, by key; empty: none
};
// Lines of one key each to standard output.
Result<> generate(const Generation& what);
// Whether lines "key<TAB>count" on standard input are the sum of such tallies, every key once. kInput: the
// first line that is not, or a key that is missing.
Result<> check_counts(const Generation& what, const std::vector<std::string>& tallies);

// The paper's alternative without any help of the network: a TCP stream of lines into one hash table. An end
// of a file ends a sender's stream.
struct TcpSend {
    std::string host;  // IPv4
    std::uint16_t port = 0;
    std::string file;
    bool combine = false;  // count first, and send each key with its count once (bench/job/combine.h)
};
Result<> tcp_send(const TcpSend& what);

struct TcpReceive {
    std::uint16_t port = 0;
    unsigned senders = 1;
    bool combined = false;            // streams are of keys with counts
    unsigned deadline_seconds = 120;  // for the next sender to come, or its next bytes
};
// "key<TAB>count" a line to standard output, in no order.
Result<> tcp_receive(const TcpReceive& what);

// Runs a command; writes {"wall", "user", "system"}, in seconds and with those of its children, to `out` as
// JSON. Returns its exit code.
Result<int> measure(const std::string& out, const std::vector<std::string>& command);

}  // namespace ask::bench
