# SPDX-License-Identifier: Apache-2.0
#
# Everything the tree links against, found once and only through Debian packages (tools/install-deps).
#   ask::libbpf  ask::libxdp  ask::grpc  ask::systemd  ask::openssl  ask::zlib  ask::zstd  ask::prometheus  (pkg-config or plain libraries)
#   protobuf::libprotobuf  spdlog::spdlog  CLI11::CLI11  tomlplusplus::tomlplusplus
#   nlohmann_json::nlohmann_json  Threads::Threads  doctest::doctest  benchmark::benchmark

set(ask_deps_hint "run tools/install-deps, which installs what Debian 12 lacks")

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(absl REQUIRED)

# The package's CMake files are not installed in every Debian release; its pkg-config file is.
function(ask_pkg_target name)
    string(TOUPPER "ASK_DEP_${name}" prefix)
    pkg_check_modules(${prefix} IMPORTED_TARGET GLOBAL ${ARGN})
    if(NOT ${prefix}_FOUND)
        message(FATAL_ERROR "pkg-config finds no ${ARGN}: ${ask_deps_hint}")
    endif()
    add_library(ask::${name} ALIAS PkgConfig::${prefix})
endfunction()

ask_pkg_target(libbpf libbpf)
ask_pkg_target(libxdp libxdp)
ask_pkg_target(grpc grpc++ protobuf)
ask_pkg_target(systemd libsystemd)
ask_pkg_target(openssl libssl libcrypto)
ask_pkg_target(zlib zlib)
ask_pkg_target(zstd libzstd)
ask_pkg_target(tomlplusplus tomlplusplus)
add_library(ask::prometheus ALIAS prometheus-cpp::core)

# Probes (lib/base/probe.h): a header, and nothing that is linked.
option(ASK_USDT "Probes for tracers in the daemons (docs/operations.md)" ON)
if(ASK_USDT)
    find_path(ASK_SDT_INCLUDE sys/sdt.h)
    if(NOT ASK_SDT_INCLUDE)
        message(FATAL_ERROR "no sys/sdt.h (systemtap-sdt-dev): ${ask_deps_hint}, or configure with -DASK_USDT=OFF")
    endif()
else()
    add_compile_definitions(ASK_NO_USDT)
endif()

if(BUILD_TESTING OR NOT DEFINED BUILD_TESTING)
    find_package(doctest REQUIRED)
endif()
find_package(benchmark REQUIRED)
