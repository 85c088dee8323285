# SPDX-License-Identifier: Apache-2.0
#
# Maintainers' scripts of the packages that have a daemon.

# Of the packets that this tree speaks, as a number.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../lib/abi/wire.h wire_version REGEX "^#define ASK_WIRE_VERSION ")
string(REGEX REPLACE ".* (0x[0-9A-Fa-f]+)u$" "\\1" wire_version "${wire_version}")
math(EXPR wire_version "${wire_version}" OUTPUT_FORMAT DECIMAL)
set(ASK_SCRIPTS_WIRE_VERSION ${wire_version})
set(ASK_SCRIPTS_DIR ${CMAKE_CURRENT_LIST_DIR}/debian)

# ask_maintainer_scripts(<folder> <package> <daemon> <other units of its daemon> <what else a removal stops>)
function(ask_maintainer_scripts folder package daemon more_units stop_more)
    set(wire_version ${ASK_SCRIPTS_WIRE_VERSION})
    string(STRIP "${daemon}.service ${more_units}" units)
    # Not its licence twice in one script.
    file(READ ${ASK_SCRIPTS_DIR}/upkeep.sh upkeep)
    string(REGEX REPLACE "^(#[^\n]*\n)+" "" upkeep "${upkeep}")
    string(CONFIGURE "${upkeep}" upkeep @ONLY)
    foreach(script preinst postinst prerm postrm)
        configure_file(
            ${ASK_SCRIPTS_DIR}/${script}.in ${folder}/${script} @ONLY
            FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    endforeach()
endfunction()

# As a script: cmake -DFOLDER=... -DPACKAGE=... -DDAEMON=... [-DMORE_UNITS=...] -P scripts.cmake
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    ask_maintainer_scripts(${FOLDER} ${PACKAGE} ${DAEMON} "${MORE_UNITS}" "")
endif()
