#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# dissector_test.sh MAKE_CAPTURE: what tools/wireshark/ask.lua says of a packet of each type, of retransmissions and ACKs, and
# of malformed packets; and that no packet, whatever is in it, is an error of the script.

set -euo pipefail

make_capture=$1
script=${ASK_SOURCE_DIR:?}/tools/wireshark/ask.lua
dir=$(mktemp -d /tmp/ask-wireshark.XXXXXX)
trap 'rm -r "$dir"' EXIT
export HOME=$dir  # no plugins or settings of whoever runs this

fail() {
    printf 'FAIL %s\n' "$*" >&2
    exit 1
}

# Two passes: what comes later is known, as it is in Wireshark.
dissect() {
    tshark -2 -X "lua_script:$script" -r "$@" 2>"$dir/stderr" || fail "tshark: $(cat "$dir/stderr")"
    ! grep -v '^Running as user' "$dir/stderr" >&2 || fail "tshark said that"
}

# check WHAT FILTER FIELD... : these fields of the packets of the filter are what standard input says, | between fields.
check() {
    local -r what=$1 filter=$2
    local -a fields=()
    local field
    shift 2
    for field; do fields+=(-e "$field"); done
    cat >"$dir/expected"
    dissect "$dir/all.pcap" -Y "$filter" -T fields -E separator='|' -E aggregator=';' "${fields[@]}" >"$dir/got"
    diff "$dir/expected" "$dir/got" >&2 || fail "$what"
    printf 'ok %s\n' "$what"
}

"$make_capture" "$dir/all.pcap"

check "tuples of rows, with where they are and what acknowledges them" 'ask.type == 1 && frame.number <= 3' \
    ask.seq ask.tuple ask.tuple.value ask.tuple.row ask.tuple.slot ask.acked_in ask.retransmission_of <<'END'
1|cat = 3;horse = -7;dog = 1|3;-7;1|0;0;1|0;2;1|4|
2|cat = 3;horse = -7;dog = 1|3;-7;1|0;0;1|0;2;1||
1|cat = 3;horse = -7;dog = 1|3;-7;1|0;0;1|0;2;1|4|1
END
check "an ACK and the packet that it answers" 'ask.type == 3' ask.seq ask.acks ask.answer_time ip.src <<'END'
1|1|0.003000000|198.18.3.2
END
check "whole keys" 'ask.type == 5 && !_ws.malformed' ask.var.count ask.tuple ask.tuples <<'END'
1;0;1;0|key = 5;http://example.org/ = -6|2
END
check "long keys and pieces" 'ask.type == 2 && !_ws.malformed' ask.long.pieces ask.long.piece ask.long.offset ask.tuple <<'END'
0|0||a key of thirty-one characters! = -5
2|1|1400|tail = -5
END
check "the end of a flow" 'ask.type == 4' ask.fin.items ask.channel.host ask.channel.port <<'END'
12|198.18.1.2|49153
END
check "packets of value streams" 'ask.type >= 16 && frame.number <= 13' \
    ask.type ask.values.members ask.values.count ask.values.stream ask.values.level ask.values.blocks ask.flags <<'END'
16|0 2 63|3|3|1|2|0x12
17|0 1 2|3|3|2|2|0x09
18|1|1|3|0|0|0x00
19|2|1|3|0|0|0x00
20|0 1 2|3|3|0|1|0x00
END
check "what is malformed, and that it is" 'ask.malformed || ask.bad_version' frame.number _ws.expert.message <<'END'
14|version 0xa4; this script knows 0xa5
15|63 bytes are no rows of 32 bytes each, 2 at most
16|the bitmap of row 0 has bits beyond its slots
17|255 bitmaps are not all there
18|record 0 is not all there
19|a payload of 128 bytes, and it should have 3456
20|no such type
21|the key of record 0 is not all there
END

# Any bytes behind any front: cut and overwritten at random, by a seed.
perl -e '
    srand 7;
    open my $in, "<:raw", $ARGV[0] or die; local $/; my $all = <$in>;
    my @frames; my $at = 24;
    while ($at < length $all) { my $n = unpack "V", substr $all, $at + 8, 4; push @frames, substr $all, $at + 16, $n; $at += 16 + $n }
    print substr $all, 0, 24;
    for (1 .. 20000) {
        my $frame = $frames[rand @frames];
        substr $frame, 43 + rand(length($frame) - 43), 1, chr rand 256 for 1 .. 1 + rand 6;
        $frame = substr $frame, 0, 42 + rand(length($frame) - 41) if rand() < .5;
        substr $frame, 16, 2, pack "n", length($frame) - 14; substr $frame, 38, 2, pack "n", length($frame) - 34;
        print pack("VVVV", 1, 0, length $frame, length $frame), $frame;
    }' "$dir/all.pcap" >"$dir/random.pcap"
dissect "$dir/random.pcap" -T fields -e ask.type -e _ws.expert.message >"$dir/got"
[[ $(wc -l <"$dir/got") == 20000 ]] || fail "$(wc -l <"$dir/got") of 20000 packets"
! grep -m 3 'Lua Error' "$dir/got" >&2 || fail "the script broke"
printf 'ok 20000 packets of random changes: none breaks the script, %s are malformed\n' "$(grep -c 'not all there\|should have\|no rows\|shorter than' "$dir/got")"
