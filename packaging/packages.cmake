# SPDX-License-Identifier: Apache-2.0
#
# Debian packages, one a component (tools/package runs cpack). What each depends on is what its programs link, found by
# dpkg-shlibdeps; the rest is said here.
find_program(ASK_HELP2MAN help2man REQUIRED)
set(ASK_PACKAGE_VERSION "" CACHE STRING "Of the packages, in place of the tree's own")
set(version ${PROJECT_VERSION})
if(ASK_PACKAGE_VERSION)
    set(version ${ASK_PACKAGE_VERSION})
endif()
set(doc ${CMAKE_CURRENT_BINARY_DIR}/doc)

# All that is in them, and nothing else of the tree.
add_custom_target(packaged DEPENDS ask_shared)
set(mpis)
if("mpi" IN_LIST ASK_WITH)
    set(mpis mpich openmpi)
    add_dependencies(packaged ask_pmpi_mpich ask_pmpi_openmpi)
endif()
add_custom_target(debs COMMAND ${CMAKE_CPACK_COMMAND} -B ${PROJECT_BINARY_DIR}/debs WORKING_DIRECTORY ${PROJECT_BINARY_DIR} USES_TERMINAL VERBATIM)

# What completes a command is made of the same flags.
function(ask_completion program component shell destination name)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}/${name})
    add_custom_command(
        OUTPUT ${file}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}
        COMMAND sh -c "\"$0\" --completion ${shell} >\"$1\"" $<TARGET_FILE:${program}> ${file}
        DEPENDS ${program}
        VERBATIM)
    add_custom_target(completion-${shell}-${program} DEPENDS ${file})
    add_dependencies(packaged completion-${shell}-${program})
    install(FILES ${file} DESTINATION ${destination} COMPONENT ${component})
endfunction()

# man pages are what --help says.
function(ask_man_page program section component name)
    set(page ${CMAKE_CURRENT_BINARY_DIR}/man/${program}.${section}.gz)
    add_custom_command(
        OUTPUT ${page}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/man_page $<TARGET_FILE:${program}> ${section} ${name} ${page}
        DEPENDS ${program} ${CMAKE_CURRENT_SOURCE_DIR}/man_page
        VERBATIM)
    add_custom_target(man-${program} DEPENDS ${page})
    add_dependencies(packaged man-${program})
    install(FILES ${page} DESTINATION share/man/man${section} COMPONENT ${component})
    ask_completion(${program} ${component} bash share/bash-completion/completions ${program})
    ask_completion(${program} ${component} zsh share/zsh/vendor-completions _${program})
    ask_completion(${program} ${component} fish share/fish/vendor_completions.d ${program}.fish)
endfunction()
ask_man_page(ask-send 1 ask-tools "sends key-value tuples into a task")
ask_man_page(ask-recv 1 ask-tools "opens a task and prints its result")
ask_man_page(ask-allreduce 1 ask-tools "combines vectors of a group's members")
ask_man_page(ask-plan 1 ask-tools "chooses which switches of a tree aggregate")
ask_man_page(askctl 1 ask-tools "asks agents and switches what there is")
ask_man_page(ask-switchd 8 ask-switch "a switch that aggregates key-value streams")
ask_man_page(ask-agentd 8 ask-agent "a host's agent for key-value streams")
ask_man_page(ask-controld 8 ask-controller "says on which switches tasks aggregate")
ask_man_page(ask-relayd 8 ask-relay "adds up parts of tasks beside a switch")

# What every package has to have: whose it is, and since when.
execute_process(
    COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%aD
    OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(maintainer "ASK maintainers <maintainers@ask.invalid>")
set(packages ask-switch ask-agent ask-controller ask-relay ask-tools libask0 libask-dev python3-ask)
set(components ask-switch ask-agent ask-controller ask-relay ask-tools libask libask-dev python3-ask)
foreach(mpi IN LISTS mpis)
    list(APPEND packages libask-pmpi-${mpi})
    list(APPEND components libask-pmpi-${mpi})
endforeach()
foreach(package component IN ZIP_LISTS packages components)
    file(CONFIGURE OUTPUT ${doc}/${package}/changelog @ONLY CONTENT "@package@ (@version@) unstable; urgency=medium

  * Built from the source tree; its history is in git.

 -- @maintainer@  @date@
")
    # No time in it: the same tree makes the same package.
    execute_process(COMMAND gzip -9nf ${doc}/${package}/changelog COMMAND_ERROR_IS_FATAL ANY)
    install(FILES ${doc}/${package}/changelog.gz debian/copyright DESTINATION share/doc/${package} COMPONENT ${component})
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
    set(CPACK_DEBIAN_${upper}_FILE_NAME DEB-DEFAULT)
endforeach()

install(FILES debian/libask0.lintian-overrides DESTINATION share/lintian/overrides RENAME libask0 COMPONENT libask)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT ${maintainer})
set(CPACK_PACKAGE_VERSION ${version})
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE https://ask.invalid)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

# ask_describe(<component> <what it is, in a line> <more>)
macro(ask_describe component line more)
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "${line}\n${more}")
    set(CPACK_DEBIAN_${upper}_DESCRIPTION "${line}\n${more}")
endmacro()
ask_describe(ask-switch "in-network aggregation: the switch" "Aggregates key-value streams and vectors in XDP programs on a host that\nforwards packets, as its daemon's tasks and groups want it.")
ask_describe(ask-agent "in-network aggregation: a host's agent" "Sends and receives key-value streams and vectors for the programs of a\nhost, through switches that aggregate them, over AF_XDP sockets.")
ask_describe(ask-controller "in-network aggregation: the controller" "Says on which switches of a network a task aggregates, and accounts for\nwhat each of them can take.")
ask_describe(ask-relay "in-network aggregation: a relay beside a switch" "Takes parts of tasks in at a host beside a switch, where they are added up,\nand sends them on towards their receivers.")
ask_describe(ask-tools "in-network aggregation: commands" "Send into and receive from tasks, combine vectors, look at agents and\nswitches, plan trees of switches; and the documentation.")
ask_describe(libask "in-network aggregation: shared library" "What programs link that use an agent: groups and collectives.")
ask_describe(libask-dev "in-network aggregation: headers" "What programs are built with that link libask: headers for C and C++,\nfiles for pkg-config and CMake.")
ask_describe(python3-ask "in-network aggregation: Python" "Groups and collectives for NumPy's arrays and PyTorch, over libask.")

ask_describe(libask-pmpi-mpich "in-network aggregation: for MPI programs, with MPICH" "Stands before MPI's reductions, broadcasts and barriers in programs that are\nstarted with it (LD_PRELOAD), and lets groups of ASK's do them.")
ask_describe(libask-pmpi-openmpi "in-network aggregation: for MPI programs, with Open MPI" "Stands before MPI's reductions, broadcasts and barriers in programs that are\nstarted with it (LD_PRELOAD), and lets groups of ASK's do them.")

include(scripts.cmake)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/abi/wire.h)
# Those in namespaces, which a relay's package brings and an agent's runs.
set(more_units_agent "ask-agentd@*.service")
set(more_units_relay "ask-relayd@*.service")
set(more_conffiles_relay "/etc/ask/relay/net.env.example\n")
set(stop_more_relay "deb-systemd-invoke stop 'ask-relayd@*.service' 'ask-agentd@*.service'")
set(parts SWITCH AGENT CONTROLLER RELAY)
set(daemons switchd agentd controld relayd)
foreach(part daemon IN ZIP_LISTS parts daemons)
    string(TOLOWER ${part} lower)
    set(CPACK_DEBIAN_ASK-${part}_PACKAGE_DEPENDS "init-system-helpers (>= 1.50), ask-tools (>= ${version})")
    set(made ${CMAKE_CURRENT_BINARY_DIR}/debian/ask-${lower})
    ask_maintainer_scripts(${made} ask-${lower} ask-${daemon} "${more_units_${lower}}" "${stop_more_${lower}}")
    set(extra)
    foreach(script preinst postinst prerm postrm)
        list(APPEND extra ${made}/${script})
    endforeach()
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/ask-${lower}/conffiles "/etc/ask/${daemon}.toml.example\n${more_conffiles_${lower}}")
    list(APPEND extra ${CMAKE_CURRENT_BINARY_DIR}/debian/ask-${lower}/conffiles)
    set(CPACK_DEBIAN_ASK-${part}_PACKAGE_CONTROL_EXTRA ${extra})
endforeach()
string(APPEND CPACK_DEBIAN_ASK-AGENT_PACKAGE_DEPENDS ", systemd")
string(APPEND CPACK_DEBIAN_ASK-CONTROLLER_PACKAGE_DEPENDS ", systemd")
string(APPEND CPACK_DEBIAN_ASK-RELAY_PACKAGE_DEPENDS ", systemd, ask-agent, iproute2, ethtool")
set(CPACK_DEBIAN_LIBASK_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBASK_PACKAGE_RECOMMENDS ask-agent)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/libask0/triggers "activate-noawait ldconfig\n")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/libask0/shlibs "libask 0 libask0 (>= ${version})\n")
set(CPACK_DEBIAN_LIBASK_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/debian/libask0/triggers ${CMAKE_CURRENT_BINARY_DIR}/debian/libask0/shlibs)
set(CPACK_DEBIAN_LIBASK-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBASK-DEV_PACKAGE_DEPENDS "libask0 (= ${version})")
set(CPACK_DEBIAN_LIBASK-DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON3-ASK_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3-ASK_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON3-ASK_PACKAGE_DEPENDS "libask0 (>= ${version}), python3, python3-numpy")
set(CPACK_DEBIAN_PYTHON3-ASK_PACKAGE_SHLIBDEPS OFF)
# What they link is said here, since dpkg-shlibdeps knows libask only where it is installed.
set(runs_mpich libmpich12)
set(runs_openmpi libopenmpi3)
foreach(mpi IN LISTS mpis)
    string(TOUPPER libask-pmpi-${mpi} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS OFF)
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "libask0 (= ${version}), libc6 (>= 2.36), libgcc-s1 (>= 3.0), libstdc++6 (>= 12), ${runs_${mpi}}")
endforeach()
include(CPack)
