# The room core/server/grpc, where TENON_GRPC asks for it; elsewhere a sentence in its place.
if(NOT TENON_GRPC)
  tenon_room(server_grpc FOLDER core/server/grpc/absent DEPS base server)
  return()
endif()
find_program(PROTOC protoc REQUIRED)
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc++ protobuf)
set(messages ${PROJECT_BINARY_DIR}/messages)
file(MAKE_DIRECTORY ${messages})
add_custom_command(
  OUTPUT ${messages}/vllm/inference.pb.cc ${messages}/vllm/inference.pb.h
  COMMAND ${PROTOC} --proto_path=${PROJECT_SOURCE_DIR}/core/server/grpc --cpp_out=${messages}
          vllm/inference.proto
  DEPENDS ${PROJECT_SOURCE_DIR}/core/server/grpc/vllm/inference.proto)
add_library(tenon_vllm_messages STATIC ${messages}/vllm/inference.pb.cc
                                       ${messages}/vllm/inference.pb.h)
add_library(tenon::vllm_messages ALIAS tenon_vllm_messages)
target_include_directories(tenon_vllm_messages SYSTEM PUBLIC ${messages})
target_link_libraries(tenon_vllm_messages PUBLIC PkgConfig::GRPC)
tenon_room(server_grpc DEPS base server FOLDER core/server/grpc
           LIBS tenon::vllm_messages nlohmann_json::nlohmann_json)
install(FILES ${PROJECT_SOURCE_DIR}/core/server/grpc/vllm/inference.proto
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tenon/vllm)
