#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# write.pl LOG LINES RATE: a web server: what is in LINES, a tenth of a second at a time, so many lines a second. Then a line now and then,
# which nobody counts, so that whoever waits for a window's end gets there.

use strict;
use warnings;
use IO::Handle;
use Time::HiRes qw(time sleep);

my ($log, $lines, $rate) = @ARGV;
open my $in,  '<',  $lines or die "$lines: $!\n";
open my $out, '>>', $log   or die "$log: $!\n";
$out->autoflush(1);
my ($begin, $count) = (time, 0);
while (!eof $in) {
    my $text = '';
    for (; $count < (time - $begin) * $rate && !eof $in; $count++) { $text .= <$in>; }
    print $out $text;
    sleep 0.1; # the pace of a log: what is due by then is written at once
}
for (;;) {
    print $out qq(- - - [- -] "GET /end HTTP/1.1" 200 0\n);
    sleep 0.2; # until whoever reads it has seen the end, and kills this
}
