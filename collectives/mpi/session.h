// SPDX-License-Identifier: Apache-2.0
// MPI as this project uses it: started and ended once, errors as exceptions, counts that cannot overflow, communicators that free
// themselves. mpi.h stays inside this folder.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::collectives {

/// Error with MPI's own text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// A count for MPI, which takes int. InternalError if it does not fit.
int checked_count(std::size_t count);

/// A communicator of ours. Move-only; frees itself unless MPI has ended.
class MpiCommunicator {
 public:
  MpiCommunicator() = default;
  MpiCommunicator(MPI_Comm handle, const std::string& name);
  MpiCommunicator(MpiCommunicator&& other) noexcept : handle_(other.handle_) { other.handle_ = MPI_COMM_NULL; }
  MpiCommunicator& operator=(MpiCommunicator&& other) noexcept;
  ~MpiCommunicator();
  [[nodiscard]] MPI_Comm handle() const { return handle_; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// The communicator of `world_ranks`, in this order; collective over them alone. `tag` tells apart concurrent creations.
MpiCommunicator make_communicator(MPI_Comm world, const std::vector<int>& world_ranks, int tag,
                                  const std::string& name);

/// True when a launcher (mpirun, srun, …) started this process as one of several.
bool has_launcher();
/// The rank that the launcher gave this process, before MPI starts; 0 without one.
int launched_rank();
/// Starts MPI; the executor thread may be another than this one. Error if it cannot, or if the launcher is another MPI's.
void start_mpi(int* argc, char*** argv);
/// Ends MPI if it was started; collective.
void stop_mpi();

}  // namespace tessera::collectives
