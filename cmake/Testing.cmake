# SPDX-License-Identifier: Apache-2.0
#
# ask_test(<name> SOURCES <file>... [LIBS <target>...] [LABELS <label>...] [TIMEOUT <seconds>]
#          [RESOURCE_LOCK <name>...] [NO_MAIN])
#   A doctest executable <name> in <build>/tests, run by ctest under its labels (default: unit). doctest's
#   main() is added unless NO_MAIN is given.
#
# ask_script_test(<name> COMMAND <command>... [LABELS ...] [TIMEOUT ...] [RESOURCE_LOCK ...])
#   Any other test. ASK_BUILD_DIR in its environment names the build directory. Nothing is ever skipped: what
#   cannot run fails.
#
# Labels: style (of the sources and objects), package (what is installed), unit (no rights needed), models
# (state spaces searched whole), sim (simulated histories), fuzz (hostile input), docs (blocks and links of the documents), bpf (BPF_PROG_TEST_RUN), netns (namespaces), e2e (labs
# with daemons), vm (guests with other kernels). with-NAME (needs what tools/with/NAME installs) is made only where ASK_WITH has NAME.

set(ASK_TEST_TIMEOUT 60 CACHE STRING "Seconds after which ctest ends a test that sets no limit itself")

if(BUILD_TESTING)
    add_library(ask_doctest_main OBJECT ${PROJECT_SOURCE_DIR}/tests/support/doctest_main.cpp)
    target_link_libraries(ask_doctest_main PUBLIC doctest::doctest)
endif()

function(ask_test_properties name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;RESOURCE_LOCK")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT ${ASK_TEST_TIMEOUT})
    endif()
    if(ASK_SANITIZE)
        math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4") # what tools/test lets scripts take, too
    endif()
    set_tests_properties(
        ${name}
        PROPERTIES LABELS "${arg_LABELS}"
                   TIMEOUT ${arg_TIMEOUT}
                   # The longest first, so that none is left to run alone at the end.
                   COST ${arg_TIMEOUT}
                   ENVIRONMENT "ASK_BUILD_DIR=${PROJECT_BINARY_DIR};ASK_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
    if(arg_RESOURCE_LOCK)
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK "${arg_RESOURCE_LOCK}")
    endif()
endfunction()

function(ask_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "NO_MAIN" "TIMEOUT" "SOURCES;LIBS;LABELS;RESOURCE_LOCK")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
        message(FATAL_ERROR "ask_test(${name}): needs SOURCES; unknown: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS unit)
    endif()
    add_executable(${name} ${arg_SOURCES})
    if(NOT arg_NO_MAIN)
        target_link_libraries(${name} PRIVATE ask_doctest_main)
    endif()
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_link_libraries(${name} PRIVATE ask_warnings doctest::doctest ${arg_LIBS})
    add_test(NAME ${name} COMMAND ${name})
    ask_test_properties(${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} RESOURCE_LOCK ${arg_RESOURCE_LOCK})
endfunction()

function(ask_script_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;LABELS;RESOURCE_LOCK")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_COMMAND OR NOT arg_LABELS)
        message(FATAL_ERROR "ask_script_test(${name}): needs COMMAND and LABELS; unknown: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    ask_test_properties(${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} RESOURCE_LOCK ${arg_RESOURCE_LOCK})
endfunction()

# ask_e2e_test(<name> <script> <timeout> [<argument>...])
#   Test e2e_<name>: a script that makes labs. ctest ends a test that takes too long with SIGKILL, which would leave
#   its lab behind; timeout(1) comes first, with a signal that the test cleans up on.
function(ask_e2e_test name script timeout)
    math(EXPR first "${timeout} - 40")
    if(ASK_SANITIZE)
        math(EXPR first "${first} * 4")
    endif()
    ask_script_test(
        e2e_${name}
        COMMAND timeout --kill-after=35 ${first} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN}
        LABELS e2e
        TIMEOUT ${timeout})
endfunction()
