// Open MPI's library, loaded when a run has several ranks; nothing of it is needed to build Tenon.
//
// Without mpi.h this room has to know Open MPI's own binary interface (libmpi.so.40, of versions 4
// and 5): handles are pointers, and the predefined ones are the addresses of exported objects.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"

namespace tenon {

struct MpiLibrary {
  using Handle = void*;  // MPI_Comm, MPI_Datatype, MPI_Request

  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle comm, int* rank) = nullptr;
  int (*comm_size)(Handle comm, int* size) = nullptr;
  int (*allgather)(const void* from, int count, Handle type, void* to, int to_count, Handle to_type,
                   Handle comm) = nullptr;
  int (*isend)(const void* from, int count, Handle type, int rank, int tag, Handle comm,
               Handle* request) = nullptr;
  int (*irecv)(void* to, int count, Handle type, int rank, int tag, Handle comm,
               Handle* request) = nullptr;
  int (*test)(Handle* request, int* done, void* status) = nullptr;
  int (*cancel)(Handle* request) = nullptr;
  int (*library_version)(char* text, int* length) = nullptr;
  Handle world = nullptr;  // MPI_COMM_WORLD
  Handle byte = nullptr;   // MPI_BYTE

  static constexpr int kThreadSerialized = 2;  // MPI_THREAD_SERIALIZED
  static constexpr int kMostVersionBytes = 256;

  std::string version() const;  // "Open MPI v4.1.4"
};

// Errors: not_found, with the Debian package that brings the library; unsupported, where the
// library of that name is another MPI.
Result<std::unique_ptr<MpiLibrary>> load_mpi(const std::string& name = "libmpi.so.40");

}  // namespace tenon
