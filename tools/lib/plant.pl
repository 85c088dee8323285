#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# plant.pl [--dry] TREE DEFECT...: plants defects in a copy of the tree and prints which files that changed; with --dry only
# sees whether each could be planted, on its own. Fails, and says which and why, if one cannot.
#
# A defect (tests/mutants/NAME.defect) is a head of "name: value" lines and one or more places:
#
#     in: [FOLDER] FUNCTION
#      a line that stays
#     -a line that goes
#     +a line that comes
#
# The function is looked for by its name below FOLDER, or in all of what is shipped, and in one body of that name the lines
# that stay and go must stand, once, however they are indented and broken. So a defect outlives that its function moves, is
# reformatted, or changes elsewhere.

use strict;
use warnings;
use File::Find;

my @shipped = qw(agent bpf lib loader);

# With what is no code blanked out, so that braces count; of the same length.
sub code_of {
    my ($text) = @_;
    my $blank = sub { my $span = shift; $span =~ s/[^\n]/ /g; return $span };
    $text =~ s{(//[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+')}{$blank->($1)}gse;
    return $text;
}

# bodies_of TEXT NAME: [from, to] of each body of a function of that name.
sub bodies_of {
    my ($text, $name) = @_;
    my @bodies;
    my $code = code_of($text);
    while ($code =~ m/\b\Q$name\E\s*(?<args>\((?:[^()]++|(?&args))*+\))
                      (?:\s|const\b|noexcept\b|override\b|final\b|->[^;{}()]*)*+(?<body>\{(?:[^{}]++|(?&body))*+\})/gx) {
        push @bodies, [ $-[2], $+[2] ];
    }
    return @bodies;
}

# The words of some lines, whatever space is between them.
sub pattern_of {
    my @words = join("\n", @_) =~ /\w+|[^\w\s]/g;
    my $pattern = '';
    for my $i (0 .. $#words) {
        my $apart = $i && $words[$i] =~ /\w/ && $words[ $i - 1 ] =~ /\w/ ? '\s+' : '\s*';
        $pattern .= ($i ? $apart : $words[0] =~ /\w/ ? '\b' : '') . quotemeta $words[$i];
    }
    return qr/$pattern/;
}

# sources_below FOLDER...: path to text.
sub sources_below {
    my %text;
    find(
        {
            no_chdir => 1,
            wanted   => sub {
                return if !/\.(?:c|cpp|h)$/ || !-f;
                open my $in, '<', $_ or die "$_: $!\n";
                local $/;
                $text{$_} = <$in>;
            }
        },
        @_
    );
    return \%text;
}

sub read_defect {
    my ($path) = @_;
    my ($place, @places);
    open my $in, '<', $path or die "$path: $!\n";
    while (my $line = <$in>) {
        chomp $line;
        if ($line =~ /^in: (?:(\S+) )?(\w+)$/) {
            push @places, $place = { folder => $1, function => $2, old => [], new => [] };
        } elsif ($place && $line =~ /^([-+ ])(.*)$/) {
            push @{ $place->{old} }, $2 if $1 ne '+';
            push @{ $place->{new} }, $2 if $1 ne '-';
        } elsif ($place && $line ne '') {
            die "$path: what is \"$line\"?\n";
        }
    }
    @places or die "$path: names no place\n";
    return @places;
}

# plant_at PLACE TEXTS: changes one of the texts and returns its path.
sub plant_at {
    my ($place, $texts) = @_;
    my ($folder, $function) = @$place{qw(folder function)};
    my @roots = map {"./$_"} ($folder // @shipped);
    my $pattern = pattern_of(@{ $place->{old} });
    my ($bodies, @hits) = (0);
    for my $path (sort keys %$texts) {
        next if !grep { $path eq $_ || index($path, "$_/") == 0 } @roots;
        next if index($texts->{$path}, $function) < 0;
        for my $body (bodies_of($texts->{$path}, $function)) {
            my $text = substr $texts->{$path}, $body->[0], $body->[1] - $body->[0];
            $bodies++;
            push @hits, [ $path, $body->[0] + $-[0], $body->[0] + $+[0] ] while $text =~ /$pattern/g;
        }
    }
    $bodies or die "no function $function below @roots\n";
    @hits == 1 or die scalar(@hits) . " places in $bodies functions $function hold what it changes; want one\n";
    my ($path, $from, $to) = @{ $hits[0] };
    my $new = join "\n", @{ $place->{new} };
    # The first line's indentation is there already.
    $new =~ s/^\s+//;
    substr($texts->{$path}, $from, $to - $from) = $new;
    return $path;
}

my $dry = @ARGV && $ARGV[0] eq '--dry' ? shift : 0;
@ARGV >= 2 or die "usage: $0 [--dry] TREE DEFECT...\n";
my $tree = shift;
my @defects = map { [ $_, read_defect($_) ] } @ARGV;
chdir $tree or die "$tree: $!\n";
my %folders = map { $_ => 1 } @shipped, map { $_->{folder} // () } map { @$_[ 1 .. $#$_ ] } @defects;
my @missing = grep { !-d } keys %folders;
die "no folder @missing in $tree\n" if @missing;
my $texts = sources_below(map {"./$_"} sort keys %folders);

my ($failed, %changed) = 0;
for my $defect (@defects) {
    my ($path, @places) = @$defect;
    my %before = %$texts;
    if (!eval { $changed{ plant_at($_, $texts) } = 1 for @places; 1 }) {
        print STDERR "$path: $@";
        $failed = 1;
    }
    $texts = \%before if $dry;
}
exit 1 if $failed;
if (!$dry) {
    for my $path (sort keys %changed) {
        open my $out, '>', $path or die "$path: $!\n";
        print $out $texts->{$path};
        close $out or die "$path: $!\n";
        print "$path\n";
    }
}
