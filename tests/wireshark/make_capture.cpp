// SPDX-License-Identifier: Apache-2.0
//
// Writes a capture (pcap, Ethernet) of one packet of each type, of retransmissions and their ACKs, and of
// malformed ones, built by the code that the tests of the switch program build theirs by. dissector_test.sh
// knows what is in it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <span>
#include <string>

#include "lib/abi/values.h"
#include "lib/abi/wire.h"
#include "tests/bpf/switch/packet.h"

namespace {

using ask::test::Bytes;
using ask::test::Packet;

constexpr std::uint32_t kSender = 0xc6120102;    // 198.18.1.2
constexpr std::uint32_t kReceiver = 0xc6120302;  // 198.18.3.2
constexpr std::uint16_t kChannel = 49153;

template <typename T>
void put(std::ostream& out, T value) {
    out.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A record a millisecond, in this host's byte order, as pcap has it.
class Capture {
 public:
    explicit Capture(const char* path) : out_(path, std::ios::binary) {
        put<std::uint32_t>(out_, 0xa1b2c3d4);
        put<std::uint16_t>(out_, 2);
        put<std::uint16_t>(out_, 4);
        put<std::uint64_t>(out_, 0);
        put<std::uint32_t>(out_, 65535);
        put<std::uint32_t>(out_, 1);
    }
    void add(const Bytes& frame) {
        put<std::uint32_t>(out_, 1);
        put<std::uint32_t>(out_, 1000 * ++count_);
        put<std::uint32_t>(out_, static_cast<std::uint32_t>(frame.size()));
        put<std::uint32_t>(out_, static_cast<std::uint32_t>(frame.size()));
        out_.write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
    }
    bool close() {
        out_.close();
        return out_.good();
    }

 private:
    std::ofstream out_;
    std::uint32_t count_ = 0;
};

Packet packet(std::uint64_t seq) {
    Packet made;
    made.source = kSender;
    made.dest = kReceiver;
    made.source_port = kChannel;
    made.host = kSender;
    made.port = kChannel;
    made.task = 0x1122334455667788;
    made.incarnation = 9;
    return made.seq(seq);
}

Packet data(std::uint64_t seq) {
    Packet made = packet(seq);
    made.short_slots = 2;
    made.groups = 1;
    made.m = 2;
    return made.row_count(2).put(0, 0, "cat", 3).put(0, 2, "horse", -7).put(1, 1, "dog", 1);
}

void append(Bytes& out, std::uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) {
        out.push_back(static_cast<std::uint8_t>(value >> 8 * i));
    }
}

// A whole record of 64-bit value and any key, or the second piece of one, and the padding behind it.
Packet long_packet(std::uint64_t seq, bool piece) {
    const std::string key = piece ? "tail" : "a key of thirty-one characters!";
    Packet made = packet(seq);
    made.type = ASK_LONG;
    made.body.clear();
    append(made.body, 1, 2);
    append(made.body, piece ? 1 : 0, 2);
    append(made.body, piece ? 2 : 0, 2);
    append(made.body, 0, 2);
    append(made.body, static_cast<std::uint64_t>(-5), 8);
    append(made.body, piece ? 1400 + key.size() : key.size(), 2);
    if (piece) {
        append(made.body, 1400, 2);
        append(made.body, key.size(), 2);
    }
    made.body.insert(made.body.end(), key.begin(), key.end());
    made.body.resize((made.body.size() + 7) / 8 * 8);
    return made;
}

Packet values(std::uint8_t type, std::uint64_t seq, std::uint64_t bits, std::uint8_t blocks,
              std::uint8_t level) {
    Packet made = packet(seq);
    made.type = type;
    made.short_slots = blocks;
    made.groups = 3;
    made.m = level;
    made.op = ASK_VALUES_MAX32;
    made.bitmaps = {static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(bits), 0xabcd0123,
                    static_cast<std::uint32_t>(__builtin_popcountll(bits))};
    made.body.assign(blocks * ASK_VALUES_BLOCK_BYTES, 0x5a);
    if (type == ASK_NEED || type == ASK_HELD) {
        std::swap(made.source, made.dest);
        std::swap(made.source_port, made.dest_port);
    } else if (type == ASK_RESULT) {
        std::swap(made.source, made.dest);
        made.source_port = ASK_RESULT_PORT + 3;
        made.host = 0;
        made.port = 0;
        made.incarnation = 0;
    }
    return made;
}

void write_tuples(Capture& capture) {
    capture.add(data(1).frame());
    capture.add(data(2).frame());
    capture.add(data(1).frame());
    capture.add(data(1).ack(0, 0).frame());
    capture.add(packet(3).records({{"key", 5}, {"http://example.org/", -6}}).frame());
    capture.add(long_packet(4, false).frame());
    capture.add(long_packet(5, true).frame());
    Packet fin = packet(6);
    fin.type = ASK_FIN;
    fin.body.clear();
    append(fin.body, 12, 8);
    capture.add(fin.frame());
}

void write_values(Capture& capture) {
    Packet value = values(ASK_VALUE, 7, 0x8000000000000005, 2, ASK_LEVEL_PARTIAL);
    value.flags = ASK_F_RESEND | ASK_F_COLLIDED;
    capture.add(value.frame());
    Packet result = values(ASK_RESULT, 7, 7, 2, ASK_LEVEL_RESULT);
    result.flags = ASK_F_GROUP | ASK_F_ECE;
    capture.add(result.frame());
    capture.add(values(ASK_NEED, 8, 2, 0, 0).frame());
    capture.add(values(ASK_HELD, 8, 4, 0, 0).frame());
    capture.add(values(ASK_HAVE, 8, 7, 1, 0).frame());
}

// What no end sends: the script says so and goes on.
void write_malformed(Capture& capture) {
    Packet other = data(9);
    other.version = 0xA4;
    capture.add(other.frame());
    Packet cut = data(10);
    cut.rows.at(1).pop_back();
    capture.add(cut.frame());
    Packet beyond = data(11);
    beyond.bitmaps.at(0) |= 1U << 31;
    capture.add(beyond.frame());
    Packet bitmaps = data(12);
    bitmaps.rows_field = 255;
    capture.add(bitmaps.frame());
    Packet record = packet(13).records({{"key", 5}});
    record.body.resize(record.body.size() - 1);
    capture.add(record.frame());
    Packet blocks = values(ASK_VALUE, 14, 1, 1, 0);
    blocks.short_slots = 53;
    capture.add(blocks.frame());
    Packet type = data(15);
    type.type = 9;
    capture.add(type.frame());
    Packet key = long_packet(16, false);
    key.body.at(17) = 255;
    capture.add(key.frame());
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char*> args(argv, static_cast<std::size_t>(argc));
    if (args.size() != 2) {
        std::cerr << "usage: make_capture FILE\n";
        return 2;
    }
    Capture capture(args[1]);
    write_tuples(capture);
    write_values(capture);
    write_malformed(capture);
    return capture.close() ? 0 : 1;
}
