# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A lab of several switches: its topology as files of its directory, its links, its routes.
#
#   topology.json  as lab_topology.jq lays it out
#   nodes          "KIND NAME ADDRESS SWITCH ASKS" a line, KIND switch, host or relay; SWITCH is a host's, or says red or
#                  blue; ASKS is the control address of the switch that it is told
#   links          "NUMBER FROM TO FROM_IF TO_IF FROM_IP TO_IP BITS" a line
#   cut            numbers of the links that are down, a line each

readonly LAB_TOPOLOGY_BYTES=1048576

# topology_jq FILTER OPTION... : jq with the topologies' functions.
topology_jq() {
    jq -L "$ASK_ROOT/tools/lib" "${@:2}" "include \"lab_topology\"; $1"
}

# topology_generated SPEC KIND PATTERN: sets $TOPOLOGY_TEXT to {kind, numbers}.
topology_generated() {
    [[ ${1#*:} =~ ^$3$ ]] || usage_error "--topology: '$1' is no $2: --help shows how it is written"
    TOPOLOGY_TEXT="{\"kind\": \"$2\", \"numbers\": [${1#*:}]}"
    TOPOLOGY_FROM=generated
}

# topology_file FILE: sets $TOPOLOGY_TEXT, which is JSON and has nothing twice.
topology_file() {
    local twice
    [[ -r $1 && ! -d $1 ]] || die "--topology: cannot read $1, and it is no leaf-spine, tree or fat-tree"
    TOPOLOGY_TEXT=$(head -c $((LAB_TOPOLOGY_BYTES + 1)) "$1" | tr -d '\0') || die "--topology: cannot read $1"
    ((${#TOPOLOGY_TEXT} <= LAB_TOPOLOGY_BYTES)) || die "--topology: $1 is longer than $LAB_TOPOLOGY_BYTES bytes"
    twice=$(topology_jq twice -n -r --stream <<<"$TOPOLOGY_TEXT") || die "--topology: $1 is not JSON"
    [[ -z $twice ]] || die "--topology: $1: '$twice' is given twice"
    TOPOLOGY_FROM=described
}

# topology_parse SPEC BLUE RELAYS: sets $TOPOLOGY, the whole of topology.json, or ends.
topology_parse() {
    local -r number='[1-9][0-9]{0,2}'
    # As in lab_select, with the longest name that a node may have.
    local -r longest=$LAB_DIR/123456789012/agent.sock.ctl
    ((${#longest} < 108)) || die "$LAB_BASE is too long a path for Unix sockets: choose a shorter ASK_LAB_DIR"
    case $1 in
        leaf-spine:*) topology_generated "$1" leaf-spine "$number,$number(,$number)?" ;;
        tree:*) topology_generated "$1" tree "$number,$number(,$number)?" ;;
        fat-tree:*) topology_generated "$1" fat-tree "$number" ;;
        *) topology_file "$1" ;;
    esac
    TOPOLOGY=$(topology_jq "checked(alone | $TOPOLOGY_FROM | laid_out(\$blue; \$relays))" -s -r \
        --arg blue "$2" --argjson relays "$3" <<<"$TOPOLOGY_TEXT") || die "--topology: cannot make sense of $1"
    [[ $TOPOLOGY == \{* ]] || die "--topology: $1: $TOPOLOGY"
}

# Before anything is made by it.
topology_save() {
    printf '%s\n' "$TOPOLOGY" >"$LAB_DIR/topology.json"
    : >"$LAB_DIR/cut"
    jq -r '(.switches[] | "switch \(.name) \(.control) \(if .blue then "blue" else "red" end) -"),
        (.nodes[] | "\(.kind) \(.name) \(.address) \(.switch) \(if .asks == "" then "-" else .asks end)")' \
        <<<"$TOPOLOGY" >"$LAB_DIR/nodes"
    jq -r '.links[] | "\(.number) \(.from) \(.to) \(.from_if) \(.to_if) \(.from_ip) \(.to_ip) \(.bits)"' \
        <<<"$TOPOLOGY" >"$LAB_DIR/links"
}

# The two pairs of interfaces of every link, in the middle of which the injector is: FROM's to h<N>, TO's to s<N>.
topology_wire() {
    local -r wide=$1
    local -a ends=()
    local number from to from_if to_if
    while read -r number from to from_if to_if _; do
        printf 'link add dev h%s %s type veth peer name %s %s netns %s\n' "$number" "$wide" "$from_if" "$wide" "$(lab_netns "$from")"
        printf 'link add dev s%s %s type veth peer name %s %s netns %s\n' "$number" "$wide" "$to_if" "$wide" "$(lab_netns "$to")"
        printf 'link set dev h%s up\nlink set dev s%s up\n' "$number" "$number"
    done <"$LAB_DIR/links" | in_node chaos ip -batch - || die "cannot make the links (is the veth module there?)"
    mapfile -t ends < <(awk '{ print "h" $1; print "s" $1 }' "$LAB_DIR/links")
    interfaces_quiet chaos off "${ends[@]}"
}

# What of a batch for `ip` is in each node's $LAB_DIR/batch/NODE: addresses, and routes that do not change.
topology_batches() {
    mkdir "$LAB_DIR/batch"
    awk -v dir="$LAB_DIR/batch/" '
        function end(node, dev, ip) {
            print "address add " ip "/" $8 " dev " dev "\nlink set dev " dev " up" >> (dir node)
            close(dir node)
        }
        { end($2, $4, $6); end($3, $5, $7) }
        $8 == 24 { print "route add default via " $7 >> (dir $2); close(dir $2) }' "$LAB_DIR/links"
    awk -v dir="$LAB_DIR/batch/" '$1 == "switch" { print "address add " $3 "/32 dev lo" >> (dir $2); close(dir $2) }' "$LAB_DIR/nodes"
    topology_routes
}

# Each switch's routes by the links that are there, as batches.
topology_routes() {
    # shellcheck disable=SC2016 # a variable of jq
    topology_jq 'routes($down)' -r --argjson down "$(jq -s . "$LAB_DIR/cut")" <"$LAB_DIR/topology.json" |
        awk -F '\t' -v dir="$LAB_DIR/batch/" '{ print $2 >> (dir $1); if ($1 != last) { close(dir last); last = $1 } }'
}

topology_configure() {
    local node
    local -a ends
    while read -r node; do
        ! orphaned || die "killed"
        in_node "$node" ip -batch "$LAB_DIR/batch/$node" || die "cannot configure the links of $node"
        mapfile -t ends < <(awk -v node="$node" '$2 == node { print $4 } $3 == node { print $5 }' "$LAB_DIR/links")
        interfaces_quiet "$node" on "${ends[@]}"
    done < <(cut -d ' ' -f 2 "$LAB_DIR/nodes")
    rm -r "$LAB_DIR/batch"
}

topology_build() {
    topology_wire "$1"
    topology_batches
    topology_configure
}

# The control addresses of all switches that aggregate.
blue_switches() {
    awk '$1 == "switch" && $4 == "blue" { print $3 ":4792" }' "$LAB_DIR/nodes"
}

# link_between A B: "NUMBER FROM TO ...", whichever way round it is written.
link_between() {
    awk -v a="$1" -v b="$2" '($2 == a && $3 == b) || ($2 == b && $3 == a)' "$LAB_DIR/links"
}

# Takes a link away at both ends at once, as when a cable is pulled, or puts it back; then every switch's routes follow.
link_set() {
    local -r number=$1 state=$2
    local node
    in_node chaos ip -batch - <<BATCH || die "cannot set the link $state"
link set dev h$number $state
link set dev s$number $state
BATCH
    { grep -vx "$number" "$LAB_DIR/cut" || true; } >"$LAB_DIR/cut.new"
    [[ $state == up ]] || printf '%s\n' "$number" >>"$LAB_DIR/cut.new"
    mv "$LAB_DIR/cut.new" "$LAB_DIR/cut"
    rm -rf "$LAB_DIR/batch"
    mkdir "$LAB_DIR/batch"
    topology_routes
    for node in "$LAB_DIR"/batch/*; do
        in_node "${node##*/}" ip -batch "$node" || die "cannot change the routes of ${node##*/}"
    done
    rm -r "$LAB_DIR/batch"
}
