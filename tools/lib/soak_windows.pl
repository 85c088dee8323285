#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# soak_windows.pl write DIR SENDER SECONDS SEED: an application that logs at a steady pace into DIR/log, which it rotates now and
# then, and writes in pieces that are not lines. Line i of it has a key of its own, or, every other, one that all senders have and
# i as its value. DIR/lines has how many there are, at the end.
#
# soak_windows.pl judge OUT DIR... : whether the tables of OUT are a reference's, made from what DIR's applications have written: each
# line of all in exactly one window, in each sender's order, and every window the sums of exactly its lines. Prints what is wrong, or
# one line of figures. With --so-far lines may be missing at the end.

use strict;
use warnings;
use Fcntl;
use List::Util qw(max sum0);
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);

use constant {
    BLOCKS_A_SECOND => 10,
    LINES_A_BLOCK => 40,
    SHARED_KEYS => 7,
    # Blocks that an application writes under the old name's file before it hears of the new one.
    LINGERING_BLOCKS => 4,
};

sub wrong {
    print "@_\n";
    exit 1;
}

sub open_log {
    my ($dir) = @_;
    sysopen(my $log, "$dir/log", O_WRONLY | O_CREAT | O_APPEND, 0644) or die "$dir/log: $!\n";
    return $log;
}

sub put {
    my ($log, $text) = @_;
    (syswrite($log, $text) // -1) == length $text or die "write: $!\n";
}

sub line_of {
    my ($sender, $i) = @_;
    return $i % 2 ? sprintf("s%d-%09d\t1\n", $sender, $i) : "shared" . ($i / 2 % SHARED_KEYS) . "\t$i\n";
}

sub write_log {
    my ($dir, $sender, $seconds, $seed) = @_;
    srand $seed * 16 + $sender;
    my ($i, $files) = (0, 0);
    my $log = open_log($dir);
    my $rotate_at = 10 + rand 50;
    my $lingers = 0;
    my $began = time;
    for my $block (1 .. $seconds * BLOCKS_A_SECOND) {
        my $text = join '', map { line_of($sender, ++$i) } 1 .. LINES_A_BLOCK;
        my $half = int rand length $text;
        put($log, substr $text, 0, $half);
        put($log, substr $text, $half);
        if ($lingers && !--$lingers) {
            $log = open_log($dir);
        } elsif (!$lingers && $sender != 3 && $block / BLOCKS_A_SECOND > $rotate_at) {
            rename "$dir/log", "$dir/log." . ++$files or die "rename: $!\n";
            $rotate_at = $block / BLOCKS_A_SECOND + 10 + rand 110;
            $lingers = 1 + int rand LINGERING_BLOCKS;
        }
        my $wait = $began + $block / BLOCKS_A_SECOND - time;
        sleep $wait if $wait > 0;
    }
    $log = open_log($dir) if $lingers;
    open my $lines, '>', "$dir/lines" or die "$dir/lines: $!\n";
    print $lines "$i\n";
}

# Which of a log's files it is, in their order: log.1, log.2, ..., log.
sub place_of {
    my ($file) = @_;
    return $file =~ /\.(\d+)$/ ? $1 : 1e9;
}

# The reference of a stream's input: how many lines each application has written, as its files have them.
sub lines_of {
    my ($sender, $dir) = @_;
    my $lines = 0;
    for my $file (sort { place_of($a) <=> place_of($b) } glob "$dir/log $dir/log.*") {
        next unless -e $file;
        open my $in, '<', $file or die "$file: $!\n";
        while (my $line = <$in>) {
            last unless $line =~ /\n$/;
            $line eq line_of($sender, ++$lines) or die "$file has $line in place of line $lines: the soak's own fault\n";
        }
    }
    return $lines;
}

# The rows of windows.tsv, with begins and ends in seconds.
sub rows_of {
    my ($out) = @_;
    my @rows;
    open my $in, '<', "$out/windows.tsv" or die "$out/windows.tsv: $!\n";
    while (<$in>) {
        chomp;
        next if /^#/;
        my %row;
        @row{qw(number begin until state late keys tuples missing)} = split /\t/, $_, -1;
        for (@row{qw(begin until)}) {
            my @part = /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)Z$/ or wrong("windows.tsv: not a time: $_");
            $_ = timegm($part[5], $part[4], $part[3], $part[2], $part[1] - 1, $part[0]);
        }
        push @rows, \%row;
    }
    return @rows;
}

# Numbers rise, and what one window does not cover the next one does.
sub check_rows {
    my $before;
    for my $row (@_) {
        if ($before) {
            $row->{number} > $before->{number} or wrong("windows.tsv: $row->{number} comes after $before->{number}");
            $row->{begin} == $before->{until} or wrong("windows.tsv: $before->{number} ends $before->{until}, $row->{number} begins $row->{begin}");
        }
        $row->{number} == $row->{begin} or wrong("windows.tsv: $row->{number} begins at $row->{begin}");
        $row->{state} =~ /^(whole|empty)$/ or wrong("windows.tsv: $row->{number} is $row->{state}: $row->{missing}");
        $before = $row;
    }
}

sub file_of {
    my ($out, $row) = @_;
    my @t = gmtime $row->{begin};
    return sprintf '%s/%04d%02d%02dT%02d%02d%02dZ.tsv', $out, $t[5] + 1900, $t[4] + 1, @t[3, 2, 1, 0];
}

# A window's table: own keys' lines of each sender as [first, last], and the shared keys' sums.
sub table_of {
    my ($file, $next) = @_;
    my (%own, %shared, $keys);
    open my $in, '<', $file or wrong("$file: $!");
    while (<$in>) {
        ++$keys;
        if (/^s(\d)-0*(\d+)\t(\d+)$/) {
            $3 == 1 or wrong("$file: s$1-$2 is there $3 times");
            push @{$own{$1}}, $2;
        } elsif (/^shared(\d)\t(\d+)$/) {
            $shared{$1} = $2;
        } else {
            wrong("$file: what is $_");
        }
    }
    for my $sender (keys %own) {
        my @lines = sort { $a <=> $b } @{$own{$sender}};
        my $expected = $next->{$sender};
        for (@lines) {
            $_ == $expected or wrong("$file: s$sender-$_ where s$sender-$expected was to come (" . ($_ < $expected ? 'twice' : 'missing') . ')');
            $expected += 2;
        }
        $own{$sender} = [$lines[0], $lines[-1]];
        $next->{$sender} = $expected;
    }
    return (\%own, \%shared, $keys // 0);
}

# sums_of FROM TO: of the shared keys, by lines FROM to TO. Even lines of a key are 2 * SHARED_KEYS apart.
sub sums_of {
    my ($from, $to) = @_;
    my @sums = (0) x SHARED_KEYS;
    for my $i ($from .. $to) {
        $sums[$i / 2 % SHARED_KEYS] += $i unless $i % 2;
    }
    return @sums;
}

# Between two lines of its own a sender has one of a shared key, and whether that is of the window before or of the one behind, no own
# key tells. The sums do: there must be a way to have all of them. `ways` are those so far: for each sender the line that it begins with.
sub check_sums {
    my ($file, $ways, $next, $shared, $senders) = @_;
    my %after;
    for my $way (@$ways) {
        for my $with (0 .. 2 ** @$senders - 1) {
            my @sums = (0) x SHARED_KEYS;
            my @ends;
            for my $s (0 .. $#$senders) {
                # The next own line has not come: its predecessor, which is shared, may have, if there is one.
                my $end = $next->{$senders->[$s]} - 2 + ($with >> $s & 1);
                $end = max($end, $way->[$s] - 1);
                my @of = sums_of($way->[$s], $end);
                $sums[$_] += $of[$_] for 0 .. $#sums;
                push @ends, $end + 1;
            }
            $after{join ' ', @ends} = \@ends if !grep { $sums[$_] != ($shared->{$_} // 0) } 0 .. $#sums;
        }
    }
    %after or wrong("$file: its sums are those of no lines that it can have");
    return [values %after];
}

sub judge {
    my ($so_far, $out, @dirs) = @_;
    my @senders = map { $_ + 1 } 0 .. $#dirs;
    my %lines = map { $_ => lines_of($_, $dirs[$_ - 1]) } @senders;
    my @rows = rows_of($out);
    check_rows(@rows);
    my %next = map { $_ => 1 } @senders;
    my $ways = [[(1) x @senders]];
    my ($tuples, $longer) = (0, 0);
    for my $row (@rows) {
        my $file = file_of($out, $row);
        my ($own, $shared, $keys) = table_of($file, \%next);
        $ways = check_sums($file, $ways, \%next, $shared, \@senders);
        $keys == $row->{keys} or wrong("$file has $keys keys, windows.tsv $row->{keys}");
        $tuples += $row->{tuples};
        ++$longer if $row->{until} - $row->{begin} > 1;
    }
    if (!$so_far) {
        my @files = glob "$out/2*.tsv";
        @files == @rows or wrong(scalar(@files) . ' tables, ' . scalar(@rows) . ' in windows.tsv');
        my $all = sum0 values %lines;
        $tuples == $all or wrong("windows.tsv has $tuples tuples, the senders wrote $all");
        grep({ my $way = $_; !grep { $way->[$_ - 1] != $lines{$_} + 1 } @senders } @$ways) or
            wrong('windows end before the lines do: ' . join ', ', map { "sender $_ has $lines{$_}, next is $next{$_}" } @senders);
    }
    my @late = sort { $a <=> $b } map { $_->{late} } @rows;
    printf "%d windows, %d of them longer than 1 s, %d empty, %d tuples; committed after their end: median %d ms, p99 %d ms, most %d ms\n",
        scalar @rows, $longer, scalar(grep { $_->{state} eq 'empty' } @rows), $tuples,
        @rows ? ($late[@late / 2], $late[@late * 0.99], $late[-1]) : (0, 0, 0);
}

my $command = shift // '';
if ($command eq 'write') {
    write_log(@ARGV);
} elsif ($command eq 'judge') {
    my $so_far = @ARGV && $ARGV[0] eq '--so-far' ? shift : 0;
    judge($so_far, @ARGV);
} else {
    die "soak_windows.pl write|judge\n";
}
