# SPDX-License-Identifier: Apache-2.0
#
# From what `tools/lab up --topology` was given to a network with numbers, addresses and interfaces, and from that to
# routes. Three entries:
#
#   described   a file's text as JSON -> {switch, host, link, ...} checked name by name (docs/lab.md has the schema)
#   generated   {kind, numbers} -> the same for a leaf-spine, a tree or a fat tree
#   laid_out    either of them -> {switches, nodes, links, topology}: what tools/lab works from
#   routes      that, and which links are down -> lines "NODE<tab>route of ip -batch"

# The third octet of 198.18.N.0/24 is a host's number up to 128, and a relay's from 129; the last one of 198.19.128.N a switch's.
def most_switches: 127;
def most_hosts: 128;
def most_links: 512; # as many as ask-chaosd takes

def bad($text): error($text);

# Runs `f`; instead of a document comes a text that says what is wrong.
def checked(f): try f catch tostring;

# The one document of all that were read.
def alone: if length == 1 then .[0] else bad("it is not one document but \(length)") end;

# Of somebody's text what may stand in a message.
def plain: .[:40] | gsub("[[:cntrl:]]"; "?");

def kind_of: {"null": "nothing", boolean: "true or false", number: "a number", string: "a string",
    array: "an array", object: "an object"}[type];

def has_keys($what; $known):
    (keys_unsorted - $known) as $unknown |
    if $unknown != [] then bad("\($what): unknown key '\($unknown[0] | plain)'; known: \($known | join(", "))") else . end;

def within($what; $count; $least; $most):
    if $count < $least or $count > $most then bad("\($what) is \($count), and must be from \($least) to \($most)") else . end;

# Names become names of namespaces, interfaces and files of the lab's directory.
def taken: ["all", "args", "bpf", "chaos", "conf", "links", "logs", "made", "nodes", "operator", "pids", "ready", "settings",
    "sw", "tls", "token", "topology"];

def is_name($what):
    if type != "string" then bad("\($what) must be a name, not \(kind_of)")
    elif test("^[a-z][a-z0-9-]{0,11}$") | not then bad("\($what) '\(plain)' is no name: 1 to 12 of a-z, 0-9 and -, a letter first")
    elif IN(taken[]) or test("^r[0-9]+$") then bad("\($what) '\(.)': the lab uses that name itself")
    else . end;

def is_array($what): if . == null then [] elif type == "array" then . else bad("\($what) must be an array, not \(kind_of)") end;

def is_object($what): if type == "object" then . else bad("\($what) must be an object, not \(kind_of)") end;

def is_rate($what):
    if . == null or (type == "number" and . > 0 and . <= 1e12) then . else bad("\($what): rate must be a number more than 0 and at most 1e12") end;

def is_load($what):
    if . == null or (type == "number" and . >= 0 and . <= 1e9 and . == floor) then .
    else bad("\($what): load must be a whole number from 0 to 1000000000") end;

# Each checks the object at hand and hands it on.
def check_switch($at):
    is_object("switch \($at)") | has_keys("switch \($at)"; ["name", "parent", "rate", "load", "available", "relay", "control", "capacity", "memory_mib"]) |
    . as {$name, $parent, $rate, $load, $available} |
    ($name | is_name("switch \($at): name")) | "switch '\($name)'" as $what |
    (if $parent != null then ($parent | is_name("\($what): parent")) else . end) |
    ($rate | is_rate($what)) | ($load | is_load($what)) |
    if ($available | . == null or type == "boolean") then {$name, $parent, $rate, $load, $available}
    else bad("\($what): available must be true or false") end;

def check_host($at):
    is_object("host \($at)") | has_keys("host \($at)"; ["name", "switch", "rate", "load", "address"]) |
    . as {$name, $switch, $rate, $load} |
    ($name | is_name("host \($at): name")) | "host '\($name)'" as $what |
    ($switch | is_name("\($what): switch")) | ($rate | is_rate($what)) | ($load | is_load($what)) |
    {$name, $switch, $rate, $load};

def check_link($at):
    is_object("link \($at)") | has_keys("link \($at)"; ["from", "to"]) | . as {$from, $to} |
    ($from | is_name("link \($at): from")) | ($to | is_name("link \($at): to")) | {$from, $to};

def check_names:
    ([.switch[].name, .host[].name] | group_by(.) | map(select(length > 1) | .[0])) as $twice |
    if $twice != [] then bad("'\($twice[0])' is the name of two nodes") else . end;

# Every switch is below the one that has no parent.
def check_tree:
    (.switch | map({(.name): (.parent // "")}) | add) as $parent |
    ([.switch[] | select(.parent == null) | .name]) as $roots |
    (first(.switch[] | select(.parent != null and $parent[.parent] == null)) // null) as $stray |
    # As many steps up as there are switches end above the root, or go round.
    (.switch | length) as $steps |
    ([.switch[].name | reduce range($steps) as $_ (.; $parent[.] // "") | select(. != "")]) as $round |
    if $stray then bad("switch '\($stray.name)': its parent '\($stray.parent)' is no switch")
    elif $round != [] then bad("switch '\($round[0])' is its own ancestor: a loop of parents")
    elif ($roots | length) > 1 then bad("switches '\($roots[0])' and '\($roots[1])' both have no parent: the network is in two parts")
    else . end;

def check_ends:
    (.switch | map({(.name): true}) | add) as $is |
    (first(.host[] | select($is[.switch] | not)) // null) as $host |
    (first(.link[] | select(($is[.from] and $is[.to]) | not)) // null) as $link |
    (first(.link[] | select(.from == .to)) // null) as $self |
    ([(.switch[] | select(.parent) | [.name, .parent]), (.link[] | [.from, .to])] |
        group_by(sort) | map(select(length > 1) | .[0])) as $twice |
    if $host then bad("host '\($host.name)': '\($host.switch)' is no switch")
    elif $link then bad("link '\($link.from)' to '\($link.to)': both ends must be switches")
    elif $self then bad("link '\($self.from)' to '\($self.to)': both ends are one switch")
    elif $twice != [] then bad("'\($twice[0][0])' and '\($twice[0][1])' have two links")
    else . end;

def check_counts($switches; $hosts; $links):
    within("the number of switches"; $switches; 1; most_switches) |
    within("the number of hosts"; $hosts; 1; most_hosts) |
    within("the number of links"; $links; 1; most_links);

# Of a file's text, once parsed. What is known of its keys is kept; task and message are for ask-plan, which checks them.
def described:
    is_object("the topology") | has_keys("the topology"; ["switch", "host", "link", "task", "message"]) |
    {switch: (.switch | is_array("switch")), host: (.host | is_array("host")), link: (.link | is_array("link"))}
        + (if .task then {task: (.task | is_object("task"))} else {} end)
        + (if .message then {message: (.message | is_object("message"))} else {} end) |
    check_counts(.switch | length; .host | length; (.switch | length) - 1 + (.link | length) + (.host | length)) |
    .switch |= [range(length) as $at | .[$at] | check_switch($at + 1)] |
    .host |= [range(length) as $at | .[$at] | check_host($at + 1)] |
    .link |= [range(length) as $at | .[$at] | check_link($at + 1)] |
    check_names | check_tree | check_ends;

# `jq --stream` of the text: what of an object is given twice.
def twice: [inputs | select(length == 2) | .[0]] | group_by(.) | map(select(length > 1) | .[0] | map(tostring) | join(".")) | first // "" | plain;

def s($n): "s\($n)";

# A spanning tree of the links, {from, to} each, by distance from $root: the parents; the rest stays links.
def with_parents($count; $root; $hosts; $links):
    (reduce $links[] as $l ({}; .[$l.from] += [$l.to] | .[$l.to] += [$l.from])) as $next |
    (reduce range($count) as $_ ({parent: {($root): ""}, front: [$root]};
        reduce (.front[] as $at | ($next[$at] // [])[] | {at: $at, to: .}) as $step (.front = [];
            if .parent[$step.to] == null then .parent[$step.to] = $step.at | .front += [$step.to] else . end)) | .parent) as $parent |
    {switch: [range(1; $count + 1) | {name: s(.), parent: ($parent[s(.)] | if . == "" then null else . end)}],
     host: [range($hosts | length) | {name: "h\(. + 1)", switch: $hosts[.]}],
     link: [$links[] | select($parent[.from] != .to and $parent[.to] != .from)], between: $links};

def leaf_spine($leaves; $spines; $hosts):
    check_counts($leaves + $spines; $leaves * $hosts; $leaves * ($spines + $hosts)) |
    with_parents($leaves + $spines; s($leaves + 1); [range($leaves) as $l | range($hosts) | s($l + 1)];
        [range($leaves) as $l | range($spines) as $s | {from: s($l + 1), to: s($leaves + $s + 1)}]);

# Hosts at the switches of the last level, and one, the last, at the root: SOAR's destination.
def tree($children; $depth; $hosts):
    [range($depth) as $level | reduce range($level) as $_ (1; . * $children)] as $level |
    ($level | add) as $switches | $level[-1] as $leaves |
    check_counts($switches; $leaves * $hosts + 1; $switches + $leaves * $hosts) |
    with_parents($switches; s(1); [range($leaves) as $l | range($hosts) | s($switches - $leaves + $l + 1)] + [s(1)];
        [range(2; $switches + 1) | {from: s(.), to: s((. - 2) / $children | floor + 1)}]);

# Edges first, then what is above them in the pods, then the cores.
def fat_tree($k):
    ($k / 2) as $half | ($k * $half) as $row |
    (if $k % 2 == 0 then . else bad("a fat tree's number is even, not \($k)") end) |
    check_counts(2 * $row + $half * $half; $row * $half; 3 * $row * $half) |
    with_parents(2 * $row + $half * $half; s(2 * $row + 1); [range($row) as $e | range($half) | s($e + 1)];
        [range($k) as $pod | range($half) as $a | ($row + $pod * $half + $a + 1) as $agg |
            (range($half) | {from: s($pod * $half + . + 1), to: s($agg)}),
            (range($half) | {from: s($agg), to: s(2 * $row + $a * $half + . + 1)})]);

# {kind, numbers}
def generated:
    .numbers as $n |
    if .kind == "leaf-spine" then leaf_spine($n[0]; $n[1]; $n[2] // 1)
    elif .kind == "tree" then tree($n[0]; $n[1]; $n[2] // 1)
    else fat_tree($n[0]) end;

def host_of($number; $kind):
    . + {kind: $kind, $number, address: "198.18.\($number).2", gateway: "198.18.\($number).1"};

# The ends of a host's link: {number, from, to, ...}, as those of links between switches.
def host_link($at):
    {number: ($at + 1), from: .name, to: .switch, from_if: "eth0", to_if: "to-\(.name)", from_ip: .address, to_ip: .gateway, bits: 24};

def switch_link($at; $number):
    def pair($n): "198.19.\($n / 256 | floor).\($n % 256)";
    . + {$number, from_if: "to-\(.to)", to_if: "to-\(.from)", from_ip: pair(2 * $at), to_ip: pair(2 * $at + 1), bits: 31};

# $blue: "all", "none", or names, those of the switches that aggregate.
def color($blue):
    (if $blue == "all" then [.switch[] | select(.available != false) | .name]
     elif $blue == "none" then []
     else $blue | split(",") end) as $names |
    ($names - [.switch[].name]) as $unknown |
    if $unknown != [] then bad("--blue: '\($unknown[0])' is no switch of this topology")
    else .switch |= map(.available = (.name | IN($names[]))) end;

# From every switch: how far it is from the switches $from, by links that are there.
def distances($next; $from):
    reduce range($next | length) as $d ({far: ($from | map({(.): 0}) | add // {}), front: $from};
        ([.front[] as $at | $next[$at][].to] | unique) as $around |
        reduce $around[] as $to (.front = []; if .far[$to] == null then .far[$to] = $d + 1 | .front += [$to] else . end)) | .far;

# For each switch its ways to others: {to, via, dev}. $down: numbers of links.
def neighbours($down):
    (.switches | map({(.name): []}) | add) as $none |
    reduce (.links[] | select((.number | IN($down[]) | not) and .bits == 31)) as $l ($none;
        .[$l.from] += [{to: $l.to, via: $l.to_ip, dev: $l.from_if}] | .[$l.to] += [{to: $l.from, via: $l.from_ip, dev: $l.to_if}]);

# A host is told the aggregating switch that is nearest, the first of several.
def with_own_switch:
    neighbours([]) as $next | [.switches[] | select(.blue) | .name] as $blue |
    (.switches | map({(.name): .control}) | add) as $control |
    (if $blue == [] then {} else [$blue[] | {name: ., far: distances($next; [.])}] end) as $from |
    .nodes |= map(.switch as $at | . + {asks: (if $blue == [] then "" else $from | min_by(.far[$at]) | $control[.name] end)});

# Where each switch and its ask-relayd are reached, and where hosts are: what a placement is made of.
def with_relays:
    .switch |= [range(length) as $at | .[$at]
        | if .available then . + {relay: "198.18.\(129 + $at).2:4793", control: "198.19.128.\($at + 1):4792"} else . end] |
    .host |= [range(length) as $at | .[$at] + {address: "198.18.\($at + 1).2"}];

def laid_out($blue; $relays):
    color($blue) |
    [range(.switch | length) as $at | .switch[$at] | {name, number: ($at + 1), control: "198.19.128.\($at + 1)", blue: .available}] as $switches |
    [(.host | range(length) as $at | .[$at] | {name, switch} | host_of($at + 1; "host")),
     (if $relays then $switches[] | .number as $n | {name: "r\($n)", switch: .name} | host_of(128 + $n; "relay") else empty end)] as $nodes |
    (.between // [(.switch[] | select(.parent) | {from: .name, to: .parent}), .link[]]) as $between |
    ($nodes | length) as $ends |
    within("the number of links with relays' own"; $ends + ($between | length); 1; most_links) |
    {$switches, $nodes,
     links: [($nodes | range(length) as $at | .[$at] | host_link($at)),
        ($between | range(length) as $at | .[$at] | switch_link($at; $at + $ends + 1))],
     topology: (del(.between) | (if $relays then with_relays else . end) |
        .switch |= map(with_entries(select(.value != null))) | .host |= map(with_entries(select(.value != null))))} |
    with_own_switch;

# One line a switch and destination: hosts' networks, and the switches' own addresses.
def routes($down):
    neighbours($down) as $next | .switches as $switches | .nodes as $nodes |
    $switches[] as $to | distances($next; [$to.name]) as $far |
    ("\($to.control)/32", ($nodes[] | select(.switch == $to.name) | .address | sub("[.]2$"; ".0/24"))) as $prefix |
    $switches[] | select(.name != $to.name) | .name as $at |
    [$next[$at][] | select($far[$at] != null and $far[.to] == $far[$at] - 1) | "via \(.via) dev \(.dev)"] as $ways |
    "\($at)\troute replace " +
    if $ways == [] then "unreachable \($prefix)"
    elif ($ways | length) == 1 then "\($prefix) \($ways[0])"
    else "\($prefix) " + ($ways | map("nexthop \(.)") | join(" ")) end;
