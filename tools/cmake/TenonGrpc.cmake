# The room core/server/grpc, where TENON_GRPC asks for it; elsewhere a sentence in its place.
if(NOT TENON_GRPC)
  tenon_room(server_grpc FOLDER core/server/grpc/absent DEPS base server)
  return()
endif()
find_program(PROTOC protoc REQUIRED)
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc++ protobuf)
set(messages ${PROJECT_BINARY_DIR}/messages)
file(MAKE_DIRECTORY ${messages})
# A library for each: what protoc writes has the same names everywhere, so two cannot be compiled in
# one go.
add_library(tenon_vllm_messages INTERFACE)
add_library(tenon::vllm_messages ALIAS tenon_vllm_messages)
set(protos)
foreach(name inference control)
  set(proto ${PROJECT_SOURCE_DIR}/core/server/grpc/vllm/${name}.proto)
  add_custom_command(
    OUTPUT ${messages}/vllm/${name}.pb.cc ${messages}/vllm/${name}.pb.h
    COMMAND ${PROTOC} --proto_path=${PROJECT_SOURCE_DIR}/core/server/grpc --cpp_out=${messages}
            vllm/${name}.proto
    DEPENDS ${proto})
  add_library(tenon_vllm_${name} STATIC ${messages}/vllm/${name}.pb.cc ${messages}/vllm/${name}.pb.h)
  target_include_directories(tenon_vllm_${name} SYSTEM PUBLIC ${messages})
  target_link_libraries(tenon_vllm_${name} PUBLIC PkgConfig::GRPC)
  target_link_libraries(tenon_vllm_messages INTERFACE tenon_vllm_${name})
  list(APPEND protos ${proto})
endforeach()
tenon_room(server_grpc DEPS base server FOLDER core/server/grpc
           LIBS tenon::vllm_messages nlohmann_json::nlohmann_json)
install(FILES ${protos} DESTINATION ${CMAKE_INSTALL_DATADIR}/tenon/vllm)
