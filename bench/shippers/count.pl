#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# count.pl DIRECTORY SECONDS [COLUMN]: a table every so often of what comes on standard input, lines or a column of theirs: what
# stands behind a shipper.

use strict;
use warnings;

my ($dir, $every, $column) = @ARGV;
my ($until, %count) = (0);

sub table {
    my $name = sprintf '%s/2%015d', $dir, $until;
    open my $out, '>', "$name.new" or die "$name: $!\n";
    print $out "$_\t$count{$_}\n" for sort keys %count;
    close $out or die "$name: $!\n";
    rename "$name.new", "$name.tsv" or die "$name: $!\n";
    %count = ();
}

while (<STDIN>) {
    my $now = time;
    if ($now >= $until) {
        table() if %count;
        $until = (int($now / $every) + 1) * $every;
    }
    chomp;
    $count{ $column ? (split / /)[ $column - 1 ] : $_ }++;
}
table();
