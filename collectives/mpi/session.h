// SPDX-License-Identifier: Apache-2.0
// A wrapper of MPI: started and ended once, errors as exceptions, checked counts, and communicators that free
// themselves. mpi.h is only included in this folder.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::collectives {

/// Throws an Error with MPI's text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// A count for MPI as an int. Throws an InternalError if it does not fit.
int checked_count(std::size_t count);

/// An owned communicator. Move-only; freed unless MPI has ended.
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

/// The communicator of `world_ranks`, in this order; collective over these ranks only. `tag` distinguishes concurrent
/// creations.
MpiCommunicator make_communicator(MPI_Comm world, const std::vector<int>& world_ranks, int tag,
                                  const std::string& name);

/// Whether a launcher (mpirun, srun, …) started this process as one of several.
bool has_launcher();
/// The rank that the launcher assigned to this process, available before MPI starts; 0 without a launcher.
int launched_rank();
/// Starts MPI. Later calls of MPI may come from other threads, one at a time. Does nothing if MPI is running. Errors:
/// MPI cannot start, or lacks MPI_THREAD_SERIALIZED; the launcher belongs to another MPI.
void start_mpi(int* argc, char*** argv);
/// Ends MPI if it was started; collective.
void stop_mpi();

}  // namespace tessera::collectives
