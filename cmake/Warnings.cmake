# SPDX-License-Identifier: Apache-2.0
#
# INTERFACE target `ask_warnings`: link it PRIVATE from every target of ours. Generated code
# (protobuf, skeletons) does not link it and is included as SYSTEM.

add_library(ask_warnings INTERFACE)

set(ask_common_warnings
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wsign-conversion
    -Wcast-align
    -Wcast-qual
    -Wformat=2
    -Wundef
    -Wvla
    -Wdouble-promotion
    -Wimplicit-fallthrough
    -Wmissing-declarations
    -Werror)

set(ask_cxx_warnings -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wextra-semi)

set(ask_gcc_warnings -Wlogical-op -Wduplicated-cond)

target_compile_options(
    ask_warnings
    INTERFACE ${ask_common_warnings}
              $<$<COMPILE_LANGUAGE:CXX>:${ask_cxx_warnings}>
              $<$<C_COMPILER_ID:GNU>:${ask_gcc_warnings}>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_UNITY_BUILD)
    # A .cpp file that is included looks like a header with an anonymous namespace.
    target_compile_options(ask_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports std::string concatenation as overlapping memcpy (GCC bug 105329).
    target_compile_options(ask_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
    if(ASK_SANITIZE)
        # The sanitizers' own branches make flow analysis see uninitialised reads that are not there.
        target_compile_options(ask_warnings INTERFACE -Wno-error=maybe-uninitialized)
        # ThreadSanitizer knows no fences. Ours are for programs in the kernel, which it does not see either.
        if(ASK_SANITIZE MATCHES "thread")
            target_compile_options(ask_warnings INTERFACE -Wno-tsan)
        endif()
    endif()
endif()
