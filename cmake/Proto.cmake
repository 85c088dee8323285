# SPDX-License-Identifier: Apache-2.0
#
# ask_proto_library(<target> <file.proto>...)
#
# Static library of the messages of the given files of this folder, and <target>_stubs of their gRPC stubs: who calls
# nobody loads no gRPC. They are found and included from the top of the tree: import "proto/x.proto",
# #include "proto/x.pb.h" and "proto/x.grpc.pb.h". The generated code is a SYSTEM include and is built without our
# warnings.

find_program(ASK_PROTOC protoc REQUIRED)
find_library(ASK_PROTOBUF_ARCHIVE libprotobuf.a REQUIRED)
find_program(ASK_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

function(ask_proto_library target)
    set(out ${PROJECT_BINARY_DIR}/gen)
    set(sources)
    set(protos ${ARGN})
    list(TRANSFORM protos PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    # The files may import each other, so each depends on all.
    foreach(proto IN LISTS protos)
        cmake_path(RELATIVE_PATH proto BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE relative)
        cmake_path(REMOVE_EXTENSION relative LAST_ONLY OUTPUT_VARIABLE stem)
        set(generated ${out}/${stem}.pb.cc ${out}/${stem}.pb.h ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
        add_custom_command(
            OUTPUT ${generated}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
            COMMAND ${ASK_PROTOC} --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${out} --grpc_out=${out}
                    --plugin=protoc-gen-grpc=${ASK_GRPC_PLUGIN} ${relative}
            WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
            DEPENDS ${protos} ${ASK_PROTOC} ${ASK_GRPC_PLUGIN}
            COMMENT "Protobuf ${relative}"
            VERBATIM)
        list(APPEND sources ${generated})
    endforeach()

    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE here)
    file(MAKE_DIRECTORY ${out}/${here})
    set(stubs ${sources})
    list(FILTER stubs INCLUDE REGEX "\\.grpc\\.pb\\.")
    list(FILTER sources EXCLUDE REGEX "\\.grpc\\.pb\\.")
    add_library(${target} STATIC ${sources})
    # An executable whose property ASK_STARTS_OFTEN is set has it in it.
    target_link_libraries(
        ${target} PUBLIC
        "$<IF:$<BOOL:$<TARGET_PROPERTY:ASK_STARTS_OFTEN>>,${ASK_PROTOBUF_ARCHIVE};ask::zlib,protobuf::libprotobuf>"
        Threads::Threads)
    add_library(${target}_stubs STATIC ${stubs})
    target_link_libraries(${target}_stubs PUBLIC ${target} ask::grpc)
    foreach(part ${target} ${target}_stubs)
        target_include_directories(${part} SYSTEM PUBLIC ${out})
        set_target_properties(${part} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
        target_compile_options(${part} PRIVATE -w)
        # Every generated file has tables of the same names.
        set_target_properties(${part} PROPERTIES UNITY_BUILD OFF)
    endforeach()
endfunction()
