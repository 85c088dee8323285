# SPDX-License-Identifier: Apache-2.0
#
# Builds for arm64 on another Debian machine: its cross compiler, and headers and libraries from the root that
# ASK_SYSROOT names (vm/arm64 makes one). Programs that run during the build (protoc, bpftool, clang for BPF) are
# the machine's own.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

# try_compile() reads this file again and knows no cache variables but these.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ASK_SYSROOT)
if(NOT EXISTS "${ASK_SYSROOT}/usr/include")
    message(FATAL_ERROR "ASK_SYSROOT names no root with headers: '${ASK_SYSROOT}' (vm/arm64 makes one)")
endif()
set(CMAKE_SYSROOT ${ASK_SYSROOT})

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${ASK_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${ASK_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${ASK_SYSROOT}/usr/share/pkgconfig)
