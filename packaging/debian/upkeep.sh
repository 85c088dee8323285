# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# Part of preinst and postinst: which daemons of a package run, and what they would lose.

ask_units='@units@'

# Units of this package whose daemons run, one a line.
running_units() {
    # The patterns are systemd's.
    set -f
    # shellcheck disable=SC2086
    ask_running=$(systemctl list-units --plain --no-legend --state=active --state=reloading $ask_units)
    set +f
    printf '%s\n' "$ask_running" | cut -d ' ' -f 1
}

# ask_idle UNIT QUESTION... : prints what `askctl idle` says of the unit's daemon. 0: nothing is in the way; 21: that is;
# else nobody knows.
ask_idle() {
    ask_unit=$1
    shift
    ask_instance=
    case $ask_unit in
        *@*) ask_instance=${ask_unit#*@} && ask_instance=-${ask_instance%.service} ;;
    esac
    case $ask_unit in
        ask-agentd*) set -- --agent "/run/ask$ask_instance/agent.sock" idle "$@" ;;
        ask-switchd*) set -- --switch unix:/run/ask-switchd/control.sock idle "$@" ;;
        ask-relayd*) set -- idle --relay "unix:/run/ask-relayd$ask_instance/control.sock" "$@" ;;
        ask-controld*) set -- --controller unix:/run/ask-controld/control.sock idle "$@" ;;
    esac
    # No variable of who upgrades names another daemon.
    env -i PATH="$PATH" askctl "$@" 2>&1
}
