# SPDX-License-Identifier: Apache-2.0
#
# bpf_object(<name> <source.bpf.c> [DEPENDS <file>...] [DEFINES <NAME=VALUE>...] [SHADOW <folder>...])
#
# A folder of SHADOW goes in front of the include path: its headers stand for those of the tree of the same name.
#
# Compiles the source for the BPF target, links it with `bpftool gen object` (which drops DWARF and keeps
# BTF) to <build>/bpf/<name>.bpf.o, and generates <build>/bpf/<name>.skel.h. The INTERFACE target
# <name>_skel carries the include directory (so: #include "<name>.skel.h") and libbpf; its property
# BPF_OBJECT is the path of the object file. The skeleton's type is struct <name>_bpf: "switch" alone is a keyword.
#
# One object serves every kernel from 6.1 on: CPU v3 only, and uapi headers only. A vmlinux.h would make
# the object depend on the machine that built it. Nor does it depend on where the tree is: names of sources, which
# BTF keeps for the verifier's log, are those below the tree, so that what includes a skeleton is compiled and
# checked once for all clones.

find_program(ASK_BPF_CLANG NAMES clang-19 REQUIRED)
find_program(ASK_BPFTOOL NAMES bpftool PATHS /usr/sbin /usr/local/sbin REQUIRED)

# linux/types.h includes asm/types.h, which Debian keeps in the multiarch directory; clang does not look
# there for the BPF target.
set(ask_bpf_arch "${CMAKE_LIBRARY_ARCHITECTURE}")
if(NOT ask_bpf_arch)
    execute_process(
        COMMAND ${CMAKE_C_COMPILER} -print-multiarch
        OUTPUT_VARIABLE ask_bpf_arch
        OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
find_path(ASK_BPF_ASM_INCLUDE asm/types.h PATHS /usr/include/${ask_bpf_arch} /usr/include NO_DEFAULT_PATH REQUIRED)

set(ASK_BPF_FLAGS
    -target bpf
    -mcpu=v3
    -O2
    -g
    -std=gnu17
    -Wall
    -Wextra
    -Werror
    -Wshadow
    -Wimplicit-int-conversion
    -fno-stack-protector
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

# Stops the build on a skeleton cut short: the shell would leave an empty file behind.
set(ask_gen_skeleton "\"$1\" gen skeleton \"$2\" name \"$3\" > \"$4.tmp\" && mv \"$4.tmp\" \"$4\"")

function(bpf_object name source)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "DEPENDS;DEFINES;SHADOW")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "bpf_object(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)

    set(dir ${PROJECT_BINARY_DIR}/bpf)
    file(MAKE_DIRECTORY ${dir})
    set(raw ${dir}/${name}.raw.o)
    set(object ${dir}/${name}.bpf.o)
    set(skeleton ${dir}/${name}.skel.h)
    list(TRANSFORM arg_DEFINES PREPEND -D)
    list(TRANSFORM arg_SHADOW PREPEND -I${CMAKE_CURRENT_SOURCE_DIR}/)

    add_custom_command(
        OUTPUT ${raw}
        COMMAND ${ASK_BPF_CLANG} ${ASK_BPF_FLAGS} ${arg_DEFINES} -idirafter ${ASK_BPF_ASM_INCLUDE}
                ${arg_SHADOW} -I${PROJECT_SOURCE_DIR} -MD -MF ${raw}.d -MT ${raw} -c ${source} -o ${raw}
        DEPENDS ${source} ${arg_DEPENDS}
        DEPFILE ${raw}.d
        COMMENT "BPF object ${name}"
        VERBATIM)
    add_custom_command(
        OUTPUT ${object}
        COMMAND ${ASK_BPFTOOL} gen object ${object} ${raw}
        DEPENDS ${raw}
        VERBATIM)
    add_custom_command(
        OUTPUT ${skeleton}
        COMMAND sh -ec ${ask_gen_skeleton} sh ${ASK_BPFTOOL} ${object} ${name}_bpf ${skeleton}
        DEPENDS ${object}
        COMMENT "BPF skeleton ${name}"
        VERBATIM)

    add_custom_target(${name}_bpf ALL DEPENDS ${skeleton})
    add_library(${name}_skel INTERFACE)
    add_dependencies(${name}_skel ${name}_bpf)
    target_include_directories(${name}_skel SYSTEM INTERFACE ${dir})
    target_link_libraries(${name}_skel INTERFACE ask::libbpf)
    set_target_properties(${name}_skel PROPERTIES BPF_OBJECT ${object})
endfunction()
