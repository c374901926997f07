#include "core/parallel/mpi/mpi_library.h"

#include <dlfcn.h>

#include "core/base/quote.h"

namespace tenon {

std::string MpiLibrary::version() const {
  char text[8192] = {};  // the standard's own limit is below it
  int length = 0;
  if (library_version(text, &length) != 0) return "MPI";
  const std::string whole(text);
  return one_line(whole.substr(0, whole.find(',')), kMostVersionBytes);
}

Result<std::unique_ptr<MpiLibrary>> load_mpi(const std::string& name) {
  // Its own plugins look for its symbols.
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return not_found("Open MPI's library " + name +
                     " is not installed; Debian's package openmpi-bin brings it");
  }
  auto made = std::make_unique<MpiLibrary>();
  const char* missing = nullptr;
  const auto find = [&](auto& to, const char* symbol) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, symbol));
    if (to == nullptr && missing == nullptr) missing = symbol;
  };
  find(made->init_thread, "MPI_Init_thread");
  find(made->finalize, "MPI_Finalize");
  find(made->comm_rank, "MPI_Comm_rank");
  find(made->comm_size, "MPI_Comm_size");
  find(made->allgather, "MPI_Allgather");
  find(made->isend, "MPI_Isend");
  find(made->irecv, "MPI_Irecv");
  find(made->test, "MPI_Test");
  find(made->cancel, "MPI_Cancel");
  find(made->library_version, "MPI_Get_library_version");
  find(made->world, "ompi_mpi_comm_world");
  find(made->byte, "ompi_mpi_byte");
  if (missing != nullptr) {
    return unsupported("the library " + name + " is not Open MPI's, since it has no " +
                       std::string(missing) + "; install Debian's package openmpi-bin");
  }
  return made;
}

}  // namespace tenon
